#include "tests/eager_fuzz/value_pool.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/status_macros.h"

namespace preheat::testing {

using capture::NamedArgument;
using capture::ValueRef;
using ir::DType;
using ir::Expr;
using ir::HostTensor;
using Kind = RandomProgram::Values::Kind;

namespace {

constexpr int64_t kMaxElements = 3000;
constexpr double kMaxMagnitude = 1e4;  // of values that are not special: nothing overflows an f16

HostTensor AsF64(const HostTensor& tensor) {
  if (!ir::IsFloat(tensor.dtype) || tensor.dtype == DType::kF64) return tensor;
  HostTensor wide = HostTensor::Zeros(DType::kF64, tensor.shape);
  for (int64_t i = 0; i < wide.elements(); ++i) wide.SetFloat(i, tensor.Float(i));
  return wide;
}

// Rounding that a well-conditioned operator may leave, relative to the values' size.
double Allowed(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 1e-13;
    case DType::kF32: return 1e-5;
    case DType::kF16: return 3e-3;
    default: return 2e-2;
  }
}

std::vector<int> OperandsOf(const Call& call) {
  std::vector<int> ids;
  for (const NamedArgument& a : call.args) {
    if (auto* ref = std::get_if<ValueRef>(&a.value)) ids.push_back(ref->id);
    if (auto* list = std::get_if<std::vector<std::optional<ValueRef>>>(&a.value)) {
      for (const auto& ref : *list) {
        if (ref) ids.push_back(ref->id);
      }
    }
  }
  return ids;
}

// The call alone as a program whose inputs are its operands.
capture::AtenProgram Alone(const Call& call) {
  capture::AtenProgram p;
  capture::AtenNode node;
  node.op = call.op;
  auto take = [&] {
    p.values.emplace_back();
    p.inputs.push_back({.value = static_cast<int>(p.values.size()) - 1});
    return ValueRef{p.inputs.back().value};
  };
  for (NamedArgument a : call.args) {
    if (auto* ref = std::get_if<ValueRef>(&a.value)) *ref = take();
    if (auto* list = std::get_if<std::vector<std::optional<ValueRef>>>(&a.value)) {
      for (auto& ref : *list) {
        if (ref) ref = take();
      }
    }
    node.args.push_back(std::move(a));
  }
  for (size_t i = 0; i < call.shapes.size(); ++i) {
    p.values.emplace_back();
    node.results.push_back(static_cast<int>(p.values.size()) - 1);
    p.outputs.push_back({.value = node.results.back()});
  }
  node.result_is_list = call.list;
  p.nodes.push_back(std::move(node));
  return p;
}

absl::Status WrongShape(const Call& call, size_t i, const Record& record) {
  return absl::InternalError(absl::StrCat(
      "the generator takes result ", i, " of ", call.op, " for ", ir::TensorType{record.dtype, record.shape}.ToString(),
      ", eager gives it ", record.eager.shape.size(), " dimensions, ", record.eager.elements(), " elements"));
}

}  // namespace

ValuePool::ValuePool(uint64_t seed) : random_(seed), seed_(seed) {
  special_ = Roll(8) == 0;
  if (Roll(3) == 0) AddSymbols();
  for (const ir::Expr& symbol : symbols_) Input({symbol, Roll(2) ? Expr(1) : Expr(4)}, NewType());  // binds it
  for (int i = 0, n = 1 + Roll(3); i < n; ++i) Input(NewShape(), NewType());
  if (records_.empty()) Input({}, DType::kF32);
}

void ValuePool::AddSymbols() {
  for (int i = 0, n = 1 + Roll(2); i < n; ++i) {
    std::string name = absl::StrCat("d", i);
    out_.program.symbols.push_back({name, 2, 40});
    out_.symbols[name] = 2 + Roll(11);
    symbols_.push_back(Expr::Symbol(name));
  }
}

Shape ValuePool::NewShape() {
  Shape shape;
  int rank = Roll(10) == 0 ? 0 : 1 + Roll(4);
  for (int d = 0; d < rank; ++d) {
    constexpr int kSizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 33};
    shape.push_back(Roll(60) == 0 ? 0 : kSizes[Roll(rank > 2 ? 7 : 11)]);
    if (!symbols_.empty() && Roll(3) == 0) shape.back() = symbols_[Roll(static_cast<int>(symbols_.size()))];
  }
  return shape;
}

DType ValuePool::NewType() {
  constexpr DType kTypes[] = {DType::kF32,  DType::kF32,  DType::kF32, DType::kF32, DType::kF32, DType::kF64,
                              DType::kBF16, DType::kBF16, DType::kF16, DType::kI64, DType::kI64, DType::kI32,
                              DType::kI16,  DType::kI8,   DType::kU8,  DType::kBool};
  return kTypes[Roll(16)];
}

int ValuePool::NewValue(const Shape& shape, DType dtype) {
  capture::AtenValue value;
  value.type.tensor = {dtype, shape};
  value.type.strides = ir::RowMajorStrides(shape);
  value.type.alignment = 16;
  out_.program.values.push_back(std::move(value));
  return static_cast<int>(out_.program.values.size()) - 1;
}

std::vector<int64_t> ValuePool::Sizes(const Shape& shape) const {
  auto sizes = ir::ConcreteShape(shape, out_.symbols);
  return sizes.ok() ? *sizes : std::vector<int64_t>{-1};
}

const Record* ValuePool::Input(const Shape& shape, DType dtype, Kind kind, Expr bound) {
  std::vector<int64_t> sizes = Sizes(shape);
  if (ir::HostElements(sizes) > kMaxElements || out_.program.inputs.size() >= 8) return nullptr;
  if (kind == Kind::kQuarters && ir::IsFloat(dtype)) {
    kind = special_ && Roll(2) ? Kind::kSpecial : Roll(2) ? Kind::kReal : Kind::kQuarters;
  }
  Record record;
  record.id = NewValue(shape, dtype);
  record.dtype = dtype;
  record.shape = shape;
  record.exact = true;
  RandomProgram::Values values{dtype, kind, bound, std::vector<bool>(shape.size(), false)};
  out_.program.inputs.push_back(
      {.value = record.id, .kind = Roll(4) == 0 ? ir::InputKind::kParameter : ir::InputKind::kUser});
  Lay(out_.program.values[record.id].type, values);
  out_.values.push_back(values);
  record.eager = Generate(out_, out_.values.size() - 1, out_.symbols, seed_);
  record.wide = AsF64(record.eager);
  records_.push_back(std::move(record));
  return &records_.back();
}

// Strides of an input: mostly dense, sometimes permuted, with gaps, or repeating a dimension.
void ValuePool::Lay(capture::AtenType& type, RandomProgram::Values& values) {
  const Shape& shape = type.tensor.shape;
  if (shape.empty() || Roll(3) != 0) return;
  std::vector<size_t> order = Shuffled(shape.size());
  bool gaps = Roll(3) == 0;
  if (Roll(4) == 0) values.repeated[Roll(static_cast<int>(shape.size()))] = true;
  Expr step = gaps ? 1 + Roll(2) : 1;
  for (size_t i = order.size(); i-- > 0;) {
    size_t d = order[i];
    type.strides[d] = values.repeated[d] ? Expr(0) : step;
    if (!values.repeated[d]) step = step * Expr::Max(shape[d], 1) + Expr(gaps ? Roll(3) : 0);
  }
  type.alignment = static_cast<int>(std::min<int64_t>(16, ir::DTypeSize(type.tensor.dtype)));
}

std::vector<size_t> ValuePool::Shuffled(size_t n) {
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  for (size_t i = n; i > 1; --i) std::swap(order[i - 1], order[Roll(static_cast<int>(i))]);
  return order;
}

const Record& ValuePool::Pick() {
  int n = static_cast<int>(records_.size());
  int among = Roll(4) == 0 ? n : std::min(n, 5);
  return records_[n - 1 - Roll(among)];
}

std::optional<Shape> Broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), Expr(1));
  for (size_t i = 1; i <= out.size(); ++i) {
    Expr x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != Expr(1) && y != Expr(1)) return std::nullopt;
    out[out.size() - i] = x == Expr(1) ? y : x;
  }
  return out;
}

const Record& ValuePool::RecordOf(int id) const {
  return *std::find_if(records_.begin(), records_.end(), [id](const Record& r) { return r.id == id; });
}

absl::StatusOr<bool> ValuePool::Try(const Call& call) {
  std::vector<HostTensor> inputs, wide_inputs;
  bool exact = true;
  for (int id : OperandsOf(call)) {
    const Record& operand = RecordOf(id);
    if (call.jumps && !operand.exact) return false;
    exact = exact && operand.exact;
    inputs.push_back(operand.eager);
    wide_inputs.push_back(operand.wide);
  }
  const capture::AtenProgram alone = Alone(call);
  auto eager = RunEager(alone, inputs, out_.symbols, false);
  if (!eager.ok()) return false;
  auto wide = RunEager(alone, wide_inputs, out_.symbols, true);
  if (!wide.ok()) return false;
  std::vector<Record> made;
  for (size_t i = 0; i < eager->size(); ++i) {
    Record record;
    record.dtype = (*eager)[i].dtype;
    record.shape = call.shapes[i];
    record.eager = std::move((*eager)[i]);
    record.wide = AsF64((*wide)[i]);
    if (Sizes(record.shape) != record.eager.shape) return WrongShape(call, i, record);
    if (!Admits(record, exact && !call.function)) return false;
    made.push_back(std::move(record));
  }
  Append(call, std::move(made));
  return true;
}

// Whether a result is one that honest implementations agree about; sets `exact`.
bool ValuePool::Admits(Record& record, bool exact) const {
  const HostTensor &eager = record.eager, &wide = record.wide;
  if (eager.elements() > kMaxElements || eager.shape != wide.shape || ir::IsComplex(eager.dtype)) return false;
  if (!record.floating() && eager.dtype != wide.dtype) return false;
  double largest = 0, error = 0;
  bool finite = true;
  for (int64_t i = 0; i < eager.elements(); ++i) {
    double value = NumberAt(wide, i);
    finite = finite && std::isfinite(value);
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    error = std::max(error, ErrorAt(eager, wide, i) / (std::isfinite(value) ? std::abs(value) + 0.05 : 1));
  }
  record.exact = exact && error == 0;
  if (!record.floating()) return error == 0;
  if (!special_ && (!finite || largest > kMaxMagnitude)) return false;
  return std::isfinite(error) && error <= Allowed(record.dtype) * (1 + largest);
}

void ValuePool::Append(const Call& call, std::vector<Record> made) {
  capture::AtenNode node;
  node.op = call.op;
  node.args = call.args;
  node.result_is_list = call.list;
  for (size_t i = 0; i < made.size(); ++i) {
    made[i].id = NewValue(made[i].shape, made[i].dtype);
    node.results.push_back(made[i].id);
    bool keep = call.keep.empty() || std::count(call.keep.begin(), call.keep.end(), static_cast<int>(i)) > 0;
    if (keep) records_.push_back(std::move(made[i]));
  }
  out_.program.nodes.push_back(std::move(node));
}

// Results of operators only: inputs are passed through by other tests.
bool ValuePool::CanBeOutput(const Record& record) const {
  const auto& inputs = out_.program.inputs;
  const auto& outputs = out_.program.outputs;
  return std::none_of(inputs.begin(), inputs.end(), [&](const auto& in) { return in.value == record.id; }) &&
         std::none_of(outputs.begin(), outputs.end(), [&](const auto& o) { return o.value == record.id; });
}

RandomProgram ValuePool::Finish() {
  int count = static_cast<int>(records_.size());
  for (int i = 0, n = 1 + Roll(3); i < n; ++i) {
    const Record& record = i == 0 ? records_.back() : records_[count - 1 - Roll(std::min(count, 6))];
    if (!CanBeOutput(record)) continue;
    LayOutput(out_.program.values[record.id].type);
    out_.program.outputs.push_back({.value = record.id});
  }
  return std::move(out_);
}

void ValuePool::LayOutput(capture::AtenType& type) {
  if (type.tensor.rank() < 2 || Roll(3) != 0) return;
  Expr step = 1;
  std::vector<size_t> order = Shuffled(type.tensor.shape.size());
  for (size_t i = order.size(); i-- > 0;) {
    type.strides[order[i]] = step;
    step = step * Expr::Max(type.tensor.shape[order[i]], 1);
  }
}

}  // namespace preheat::testing
