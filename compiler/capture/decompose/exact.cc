#include "compiler/capture/decompose/exact.h"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/capture/views.h"

namespace preheat::decompose {

using capture::AtenNode;
using capture::AtenProgram;

namespace {

// Names without overloads. Sums are eager's own only if they add floats.
const std::set<std::string>& Sums() {
  static const auto* names = new std::set<std::string>{"sum", "nansum", "mean",   "mm",     "bmm",   "addmm", "baddbmm",
                                                       "mv",  "dot",    "matmul", "linear", "trace", "cumsum"};
  return *names;
}

const std::set<std::string>& Functions() {
  static const auto* names = new std::set<std::string>{"cos",
                                                       "cosh",
                                                       "sinh",
                                                       "tan",
                                                       "log",
                                                       "sqrt",
                                                       "pow",
                                                       "atan2",
                                                       "arctan2",
                                                       "xlogy",
                                                       "special_xlogy",
                                                       "special_xlog1py",
                                                       "special_entr",
                                                       "digamma",
                                                       "polygamma",
                                                       "i0",
                                                       "special_i0e",
                                                       "special_i1",
                                                       "special_i1e",
                                                       "special_ndtr",
                                                       "special_log_ndtr",
                                                       "special_erfcx",
                                                       "special_bessel_j0",
                                                       "special_bessel_j1",
                                                       "special_bessel_y0",
                                                       "special_bessel_y1",
                                                       "special_modified_bessel_i0",
                                                       "special_modified_bessel_i1",
                                                       "special_modified_bessel_k0",
                                                       "special_modified_bessel_k1",
                                                       "special_scaled_modified_bessel_k0",
                                                       "special_scaled_modified_bessel_k1",
                                                       "special_spherical_bessel_j0",
                                                       "special_airy_ai",
                                                       "_softmax",
                                                       "_log_softmax",
                                                       "_safe_softmax",
                                                       "softmax",
                                                       "log_softmax",
                                                       "logsumexp",
                                                       "var",
                                                       "std",
                                                       "var_mean",
                                                       "std_mean",
                                                       "linalg_vector_norm",
                                                       "norm"};
  return *names;
}

// Of integers these have forms that give eager's floats; of floats they are eager's own.
const std::set<std::string>& PlainOfIntegers() {
  static const auto* names =
      new std::set<std::string>{"erfinv", "special_erfinv", "special_ndtri", "lgamma", "special_gammaln"};
  return *names;
}

std::string BaseName(const std::string& op) {
  size_t start = op.find('.') + 1;
  return op.substr(start, op.find('.', start) - start);
}

bool IsOne(const capture::Argument* argument) {
  const ir::Expr* e = argument == nullptr ? nullptr : std::get_if<ir::Expr>(argument);
  return e != nullptr && *e == ir::Expr(1);
}

bool IsFloating(const AtenProgram& program, int id) {
  const capture::AtenValue& value = program.values[id];
  return !value.is_size && (ir::IsFloat(value.type.tensor.dtype) || ir::IsComplex(value.type.tensor.dtype));
}

}  // namespace

bool IsExact(const AtenProgram& program) {
  bool tensors = false;
  for (const capture::InputSpec& input : program.inputs) {
    if (IsFloating(program, input.value)) return false;
    tensors = tensors || !program.values[input.value].is_size;
  }
  return tensors;
}

bool IsEagersOwn(const AtenProgram& program, const AtenNode& node) {
  bool floating =
      std::any_of(node.results.begin(), node.results.end(), [&](int id) { return id >= 0 && IsFloating(program, id); });
  if (!floating) return false;
  std::string name = BaseName(node.op);
  if (Functions().count(name) != 0) return true;
  int operand = capture::FirstOperand(node);
  if (name == "mvlgamma") return !IsOne(node.Find("p")) || IsFloating(program, operand);
  if (PlainOfIntegers().count(name) != 0) return operand < 0 || IsFloating(program, operand);
  return Sums().count(name) != 0 && operand >= 0 && IsFloating(program, operand);
}

}  // namespace preheat::decompose
