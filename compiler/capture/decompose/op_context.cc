#include "compiler/capture/decompose/op_context.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/ir/scalar.h"

namespace preheat::decompose {

using capture::AtenProgram;
using capture::None;
using capture::ValueRef;

namespace {

bool Grows(const std::vector<Expr>& from, const std::vector<Expr>& to) {
  if (from.size() > to.size()) return false;
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != Expr(1) && from[i] != to[lead + i]) return false;
  }
  return true;
}

}  // namespace

DType ComputeType(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype; }

void OpContext::Refuse(absl::string_view why) { b.Fail(absl::UnimplementedError(absl::StrCat(node_.op, ": ", why))); }

void OpContext::Wrong(const std::string& name, absl::string_view what) {
  b.Fail(absl::InvalidArgumentError(absl::StrCat(node_.op, ": argument ", name, " ", what)));
}

bool OpContext::Has(const std::string& name) const {
  const Argument* arg = node_.Find(name);
  return arg != nullptr && !std::holds_alternative<None>(*arg);
}

const Argument* OpContext::Required(const std::string& name) {
  const Argument* arg = node_.Find(name);
  if (arg == nullptr) Wrong(name, "is missing");
  return arg;
}

Value OpContext::Lowered(int id) {
  const capture::AtenValue& value = program_.values[id];
  if (value.is_size) return b.Size(value.expr);
  if (!tensors_[id]) b.Fail(absl::InvalidArgumentError(absl::StrCat(node_.op, ": value ", id, " was not lowered")));
  return tensors_[id];
}

Value OpContext::Tensor(const std::string& name) {
  const Argument* arg = Required(name);
  if (arg == nullptr) return {};
  const ValueRef* ref = std::get_if<ValueRef>(arg);
  if (ref != nullptr) return Lowered(ref->id);
  Wrong(name, "is no tensor");
  return {};
}

Value OpContext::OptionalTensor(const std::string& name) { return Has(name) ? Tensor(name) : Value{}; }

const capture::AtenType* OpContext::Declared(const std::string& name) const {
  const Argument* arg = node_.Find(name);
  const ValueRef* ref = arg == nullptr ? nullptr : std::get_if<ValueRef>(arg);
  return ref == nullptr ? nullptr : &program_.values[ref->id].type;
}

std::vector<Value> OpContext::Tensors(const std::string& name) {
  const Argument* arg = Required(name);
  const auto* list = arg == nullptr ? nullptr : std::get_if<std::vector<std::optional<ValueRef>>>(arg);
  if (list == nullptr) {
    Wrong(name, "is no list of tensors");
    return {};
  }
  std::vector<Value> values;
  for (const std::optional<ValueRef>& ref : *list) values.push_back(ref ? Lowered(ref->id) : Value{});
  return values;
}

int64_t OpContext::Constant(const std::string& name, const Expr& e) {
  if (std::optional<int64_t> value = e.constant()) return *value;
  Refuse(absl::StrCat("argument ", name, " is symbolic"));
  return 0;
}

Expr OpContext::Size(const std::string& name) {
  const Argument* arg = Required(name);
  if (arg == nullptr) return 0;
  if (const Expr* e = std::get_if<Expr>(arg)) return *e;
  if (const bool* flag = std::get_if<bool>(arg)) return *flag ? 1 : 0;
  Wrong(name, "is no integer");
  return 0;
}

Expr OpContext::Size(const std::string& name, const Expr& otherwise) { return Has(name) ? Size(name) : otherwise; }
int64_t OpContext::Int(const std::string& name) { return Constant(name, Size(name)); }
int64_t OpContext::Int(const std::string& name, int64_t otherwise) { return Has(name) ? Int(name) : otherwise; }

bool OpContext::Bool(const std::string& name, bool otherwise) {
  if (!Has(name)) return otherwise;
  if (const bool* flag = std::get_if<bool>(Arg(name))) return *flag;
  if (const Expr* e = std::get_if<Expr>(Arg(name))) return Constant(name, *e) != 0;
  Wrong(name, "is no bool");
  return otherwise;
}

double OpContext::Double(const std::string& name, double otherwise) {
  if (!Has(name)) return otherwise;
  if (const double* d = std::get_if<double>(Arg(name))) return *d;
  if (const bool* flag = std::get_if<bool>(Arg(name))) return *flag ? 1 : 0;
  if (const Expr* e = std::get_if<Expr>(Arg(name))) return static_cast<double>(Constant(name, *e));
  Wrong(name, "is no number");
  return otherwise;
}

std::string OpContext::Text(const std::string& name, const std::string& otherwise) {
  if (!Has(name)) return otherwise;
  if (const std::string* text = std::get_if<std::string>(Arg(name))) return *text;
  Wrong(name, "is no string");
  return otherwise;
}

std::optional<DType> OpContext::Type(const std::string& name) {
  if (!Has(name)) return std::nullopt;
  if (const DType* dtype = std::get_if<DType>(Arg(name))) return *dtype;
  Wrong(name, "is no dtype");
  return std::nullopt;
}

std::vector<Expr> OpContext::Sizes(const std::string& name) {
  if (!Has(name)) return {};
  if (const auto* list = std::get_if<std::vector<Expr>>(Arg(name))) return *list;
  if (const Expr* e = std::get_if<Expr>(Arg(name))) return {*e};
  const auto* tensors = std::get_if<std::vector<std::optional<ValueRef>>>(Arg(name));
  if (tensors == nullptr || !tensors->empty()) Wrong(name, "is no list of integers");  // an empty list has no kind
  return {};
}

std::vector<int64_t> OpContext::Ints(const std::string& name) {
  std::vector<int64_t> ints;
  for (const Expr& e : Sizes(name)) ints.push_back(Constant(name, e));
  return ints;
}

std::vector<double> OpContext::Doubles(const std::string& name) {
  if (!Has(name)) return {};
  if (const auto* list = std::get_if<std::vector<double>>(Arg(name))) return *list;
  Wrong(name, "is no list of floats");
  return {};
}

Scalar OpContext::Number(double value, DType dtype) {
  if (ir::IsFloat(dtype)) return Scalar(ir::RoundTo(dtype, value));
  if (dtype == DType::kBool) return Scalar(int64_t{value != 0});
  if (!(value > -9.3e18 && value < 9.2e18)) return Scalar(int64_t{0});  // has no such integer; eager's is unspecified
  return Scalar(ir::WrapTo(dtype, static_cast<int64_t>(value)));
}

Value OpContext::Operand(const std::string& name, DType dtype) {
  const Argument* arg = Required(name);
  if (arg == nullptr) return {};
  if (std::holds_alternative<ValueRef>(*arg)) return b.Cast(Tensor(name), dtype);
  if (const Expr* e = std::get_if<Expr>(arg)) {
    std::optional<int64_t> value = e->constant();
    if (!value) return SizeAs(*e, dtype);
    if (ir::IsInteger(dtype)) return b.Fill(Scalar(ir::WrapTo(dtype, *value)), dtype);
    return Fill(static_cast<double>(*value), dtype);
  }
  if (const double* d = std::get_if<double>(arg)) return Fill(*d, dtype);
  if (const bool* flag = std::get_if<bool>(arg)) return Fill(*flag ? 1 : 0, dtype);
  Wrong(name, "is neither tensor nor number");
  return {};
}

int64_t OpContext::Wrap(int64_t dim, int rank) {
  int64_t wrapped = dim < 0 ? dim + std::max(rank, 1) : dim;
  if (wrapped >= 0 && wrapped < std::max(rank, 1)) return wrapped;
  b.Fail(absl::InvalidArgumentError(absl::StrCat(node_.op, ": dimension ", dim, " is out of range for rank ", rank)));
  return 0;
}

std::vector<int64_t> OpContext::Dims(const std::string& name, int rank) {
  std::vector<int64_t> dims = Ints(name);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }
  for (int64_t& dim : dims) dim = Wrap(dim, rank);
  if (rank == 0) return {};
  std::sort(dims.begin(), dims.end());
  return dims;
}

void OpContext::Set(int i, Value value) {
  if (!Wanted(i)) return;
  const TensorType& type = ResultType(i);
  value = b.Cast(value, type.dtype);
  // A value that does not grow to the declared shape is left as it is: Lower says what differs.
  results_[i] = value && Grows(value.shape(), type.shape) ? b.BroadcastTo(value, type.shape) : value;
}

}  // namespace preheat::decompose
