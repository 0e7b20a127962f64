#include "compiler/ir/infer.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/infer_library.h"
#include "compiler/ir/op_attrs.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {
namespace {

using Types = absl::StatusOr<std::vector<TensorType>>;

// Which element types a pointwise operator or reduction takes.
enum class Domain { kAny, kReal, kNumber, kFloat, kInteger, kBits, kBool };

Domain DomainOf(Op op) {
  switch (op) {
    case Op::kNeg:
    case Op::kAbs:
    case Op::kSign:
    case Op::kSub:
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kMod:
    case Op::kFmod:
    case Op::kPow:
    case Op::kReduceSum:
    case Op::kReduceProd:
    case Op::kScanSum:
    case Op::kScanProd: return Domain::kNumber;
    case Op::kNot:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor: return Domain::kBits;
    case Op::kShl:
    case Op::kShr: return Domain::kInteger;
    case Op::kReduceAny:
    case Op::kReduceAll: return Domain::kBool;
    case Op::kAtan2:
    case Op::kCopySign:
    case Op::kNextAfter: return Domain::kFloat;
    default: return IsUnaryPointwise(op) && op != Op::kCast ? Domain::kFloat : Domain::kReal;
  }
}

bool InDomain(Domain domain, DType dtype) {
  switch (domain) {
    case Domain::kAny: return true;
    case Domain::kReal: return !IsComplex(dtype);
    case Domain::kNumber: return IsFloat(dtype) || IsInteger(dtype);
    case Domain::kFloat: return IsFloat(dtype);
    case Domain::kInteger: return IsInteger(dtype);
    case Domain::kBits: return dtype == DType::kBool || IsInteger(dtype);
    case Domain::kBool: return dtype == DType::kBool;
  }
  return false;
}

absl::string_view DomainName(Domain domain) {
  switch (domain) {
    case Domain::kAny: return "any dtype";
    case Domain::kReal: return "no complex dtype";
    case Domain::kNumber: return "floats or integers";
    case Domain::kFloat: return "floats";
    case Domain::kInteger: return "integers";
    case Domain::kBits: return "bool or integers";
    case Domain::kBool: return "bool";
  }
  return "";
}

std::vector<TensorType> One(DType dtype, std::vector<Expr> shape) { return {TensorType{dtype, std::move(shape)}}; }

absl::Status CheckDomain(const OpAttrs& a, const TensorType& type) {
  Domain domain = DomainOf(a.op());
  if (InDomain(domain, type.dtype)) return absl::OkStatus();
  return a.Fail(absl::StrCat("takes ", DomainName(domain), ", not ", type.ToString()));
}

absl::Status CheckIndex(OpAttrs& a, const TensorType& index) {
  if (a.Has("from_end")) {
    ASSIGN_OR_RETURN(const int64_t* from_end, a.Get<int64_t>("from_end"));
    if (*from_end != 0) return a.Fail("from_end is 0 where it is said");
  }
  if (index.dtype == DType::kI64 || index.dtype == DType::kI32) return absl::OkStatus();
  return a.Fail(absl::StrCat("indices are i64 or i32, not ", index.ToString()));
}

// Of each result, all dimensions once: from the outermost to the innermost in memory.
absl::Status CheckOrders(OpAttrs& a, const std::vector<TensorType>& declared) {
  ASSIGN_OR_RETURN(const std::vector<int64_t>* orders, a.Get<std::vector<int64_t>>("orders"));
  size_t begin = 0;
  for (const TensorType& type : declared) {
    const size_t end = begin + static_cast<size_t>(type.rank());
    if (end > orders->size()) break;
    std::vector<int64_t> dims(orders->begin() + static_cast<long>(begin), orders->begin() + static_cast<long>(end));
    std::sort(dims.begin(), dims.end());
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] != static_cast<int64_t>(i)) return a.Fail("orders are not the dimensions of the results");
    }
    begin = end;
  }
  return begin == orders->size() ? absl::OkStatus() : a.Fail("orders are not the dimensions of the results");
}

// --- One function a rule, in the order of TypeRule ---

Types Declared(OpAttrs& a, absl::Span<const Value> operands, const std::vector<TensorType>& declared) {
  const bool several = a.op() == Op::kExtern || a.op() == Op::kFused || IsControl(a.op());
  if (declared.empty() && (a.op() == Op::kFused || !several)) return a.Fail("result types must be declared");
  if (declared.size() > 1 && !several) return a.Fail("has one result");
  switch (a.op()) {
    case Op::kConstant: {
      ASSIGN_OR_RETURN(const std::string* data, a.Get<std::string>("data"));
      std::optional<int64_t> elements = declared[0].NumElements().constant();
      if (!elements) return a.Fail("a constant's shape has no symbols");
      if (static_cast<int64_t>(data->size()) != *elements * DTypeSize(declared[0].dtype)) {
        return a.Fail(absl::StrCat("data has ", data->size(), " bytes, which is not ", declared[0].ToString()));
      }
      break;
    }
    case Op::kFill: {
      RETURN_IF_ERROR(a.CheckScalar("value", declared[0].dtype));
      break;
    }
    case Op::kIota: {
      if (!IsFloat(declared[0].dtype) && !IsInteger(declared[0].dtype)) return a.Fail("counts in floats or integers");
      RETURN_IF_ERROR(a.Dim("dim", declared[0].rank()).status());
      break;
    }
    case Op::kSize: {
      RETURN_IF_ERROR(a.Get<Expr>("value").status());
      if (declared[0] != TensorType{DType::kI64, {}}) return a.Fail("is i64[]");
      break;
    }
    case Op::kExtern: {
      RETURN_IF_ERROR(a.Get<std::string>("name").status());
      RETURN_IF_ERROR(a.Get<std::string>("call").status());
      if (a.Has("orders")) RETURN_IF_ERROR(CheckOrders(a, declared));
      break;
    }
    case Op::kIf:
    case Op::kWhile: {
      RETURN_IF_ERROR(a.Each<std::string>("blocks", 2).status());
      if (operands.empty() || operands[0].type() != TensorType{DType::kBool, {}})
        return a.Fail("a condition is bool[]");
      break;
    }
    default: RETURN_IF_ERROR(CheckLibraryDeclared(a, operands, declared));
  }
  for (const TensorType& type : declared) RETURN_IF_ERROR(a.CheckSizes(type));
  return declared;
}

Types PutRows(OpAttrs& a, absl::Span<const Value> operands);
Types Scatter(OpAttrs& a, absl::Span<const Value> operands);

Types Same(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  if (a.op() == Op::kScatter) return Scatter(a, operands);
  if (a.op() == Op::kPutRows) return PutRows(a, operands);
  if (a.op() == Op::kFlip) {
    RETURN_IF_ERROR(a.Dims("dims", x.rank()).status());
    return std::vector{x};
  }
  if (!IsPointwise(a.op())) {  // scans
    RETURN_IF_ERROR(CheckDomain(a, x));
    RETURN_IF_ERROR(a.Dim("dim", x.rank()).status());
    return std::vector{x};
  }
  RETURN_IF_ERROR(CheckDomain(a, x));
  if (operands.size() == 2 && operands[1].type() != x) {
    return a.Fail(absl::StrCat("operands differ: ", x.ToString(), " and ", operands[1].type().ToString()));
  }
  return std::vector{x};
}

Types BoolOf(OpAttrs& a, absl::Span<const Value> operands) {
  ASSIGN_OR_RETURN(std::vector<TensorType> same, Same(a, operands));
  same[0].dtype = DType::kBool;
  return same;
}

Types Cast(OpAttrs& a, absl::Span<const Value> operands) {
  ASSIGN_OR_RETURN(const DType* dtype, a.Get<DType>("dtype"));
  if (IsComplex(*dtype) || IsComplex(operands[0].dtype())) return a.Fail("complex dtypes have no casts");
  return One(*dtype, operands[0].shape());
}

Types Where(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& condition = operands[0].type();
  if (condition.dtype != DType::kBool) return a.Fail(absl::StrCat("the condition is bool, not ", condition.ToString()));
  if (operands[1].type() != operands[2].type() || condition.shape != operands[1].shape()) {
    return a.Fail(absl::StrCat("operands differ: ", condition.ToString(), ", ", operands[1].type().ToString(), " and ",
                               operands[2].type().ToString()));
  }
  return std::vector{operands[1].type()};
}

std::vector<Expr> Without(const std::vector<Expr>& shape, const std::vector<int64_t>& dims) {
  std::vector<Expr> left;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) == dims.end()) left.push_back(shape[i]);
  }
  return left;
}

// A maximum over nothing has no value.
absl::Status CheckNotOverNothing(const OpAttrs& a, const TensorType& x, const std::vector<int64_t>& dims) {
  if (a.op() != Op::kReduceMax && a.op() != Op::kReduceMin && Info(a.op()).rule != TypeRule::kArgReduce) {
    return absl::OkStatus();
  }
  for (int64_t dim : dims) {
    if (x.shape[dim] == Expr(0)) return a.Fail(absl::StrCat("dimension ", dim, " of ", x.ToString(), " is empty"));
  }
  return absl::OkStatus();
}

Types Reduce(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  RETURN_IF_ERROR(CheckDomain(a, x));
  ASSIGN_OR_RETURN(const std::vector<int64_t>* dims, a.Dims("dims", x.rank()));
  RETURN_IF_ERROR(CheckNotOverNothing(a, x, *dims));
  if (!std::is_sorted(dims->begin(), dims->end())) return a.Fail("dims must be sorted");
  return One(x.dtype, Without(x.shape, *dims));
}

Types ArgReduce(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  RETURN_IF_ERROR(CheckDomain(a, x));
  ASSIGN_OR_RETURN(int64_t dim, a.Dim("dim", x.rank()));
  RETURN_IF_ERROR(CheckNotOverNothing(a, x, {dim}));
  return One(DType::kI64, Without(x.shape, {dim}));
}

Types Reshape(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  ASSIGN_OR_RETURN(const std::vector<Expr>* shape, a.Get<std::vector<Expr>>("shape"));
  TensorType result{x.dtype, *shape};
  RETURN_IF_ERROR(a.CheckSizes(result));
  if (result.NumElements() != x.NumElements()) {
    return a.Fail(absl::StrCat("from ", x.ToString(), " to ", result.ToString(), " changes the number of elements"));
  }
  return std::vector{result};
}

Types Permute(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  ASSIGN_OR_RETURN(const std::vector<int64_t>* dims, a.Dims("dims", x.rank()));
  if (static_cast<int>(dims->size()) != x.rank()) {
    return a.Fail(absl::StrCat("dims must name each dimension of ", x.ToString()));
  }
  std::vector<Expr> shape;
  for (int64_t dim : *dims) shape.push_back(x.shape[dim]);
  return One(x.dtype, std::move(shape));
}

Types Broadcast(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  ASSIGN_OR_RETURN(const std::vector<Expr>* shape, a.Get<std::vector<Expr>>("shape"));
  TensorType result{x.dtype, *shape};
  RETURN_IF_ERROR(a.CheckSizes(result));
  bool fits = result.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = x.shape[i] == Expr(1) || x.shape[i] == result.shape[i];
  if (!fits) return a.Fail(absl::StrCat(x.ToString(), " does not grow to ", result.ToString()));
  return std::vector{result};
}

Types Slice(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  ASSIGN_OR_RETURN(const std::vector<Expr>* starts, a.Each<Expr>("starts", x.rank()));
  ASSIGN_OR_RETURN(const std::vector<Expr>* sizes, a.Each<Expr>("sizes", x.rank()));
  ASSIGN_OR_RETURN(const std::vector<int64_t>* steps, a.Each<int64_t>("steps", x.rank()));
  TensorType result{x.dtype, *sizes};
  RETURN_IF_ERROR(a.CheckSizes(result));
  for (int i = 0; i < x.rank(); ++i) {
    if ((*steps)[i] < 1 || (*steps)[i] > kMaxElements) return a.Fail("steps are at least 1");
    auto start = (*starts)[i].constant();
    auto size = (*sizes)[i].constant();
    auto whole = x.shape[i].constant();
    bool bad = (start && *start < 0) || (start && whole && *start > *whole);
    if (start && size && whole && *size > 0)
      bad = bad || *size - 1 > (*whole - 1 - *start) / (*steps)[i] || *start >= *whole;
    if (bad) return a.Fail(absl::StrCat("dimension ", i, " of ", x.ToString(), " has no such elements"));
  }
  return std::vector{result};
}

Types Pad(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  ASSIGN_OR_RETURN(const std::vector<Expr>* low, a.Each<Expr>("low", x.rank()));
  ASSIGN_OR_RETURN(const std::vector<Expr>* high, a.Each<Expr>("high", x.rank()));
  RETURN_IF_ERROR(a.CheckScalar("value", x.dtype));
  TensorType result{x.dtype, {}};
  for (int i = 0; i < x.rank(); ++i) {
    for (const Expr& side : {(*low)[i], (*high)[i]}) {
      if (side.constant().value_or(0) < 0 || side.constant().value_or(0) > kMaxElements) {
        return a.Fail("low and high are not negative and not huge");
      }
    }
    result.shape.push_back(x.shape[i] + (*low)[i] + (*high)[i]);
  }
  RETURN_IF_ERROR(a.CheckSizes(result));
  return std::vector{result};
}

Types Window(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  ASSIGN_OR_RETURN(int64_t dim, a.Dim("dim", x.rank()));
  ASSIGN_OR_RETURN(int64_t size, a.Positive("size"));
  ASSIGN_OR_RETURN(int64_t step, a.Positive("step"));
  ASSIGN_OR_RETURN(int64_t dilation, a.Positive("dilation"));
  TensorType result = x;
  result.shape[dim] = Expr::FloorDiv(x.shape[dim] - dilation * (size - 1) - 1, step) + 1;
  result.shape.push_back(size);
  RETURN_IF_ERROR(a.CheckSizes(result));
  return std::vector{result};
}

Types Concat(OpAttrs& a, absl::Span<const Value> operands) {
  if (operands.empty()) return a.Fail("has nothing to join");
  TensorType result = operands[0].type();
  ASSIGN_OR_RETURN(int64_t dim, a.Dim("dim", result.rank()));
  for (const Value& part : operands.subspan(1)) {
    TensorType expected = result;
    if (part.type().rank() == result.rank()) expected.shape[dim] = part.shape()[dim];
    if (part.type() != expected) {
      return a.Fail(absl::StrCat(part.type().ToString(), " does not join ", operands[0].type().ToString(),
                                 " along dimension ", dim));
    }
    result.shape[dim] = result.shape[dim] + part.shape()[dim];
  }
  RETURN_IF_ERROR(a.CheckSizes(result));
  return std::vector{result};
}

// x's shape with dimension `dim` replaced by the whole shape of `index`.
std::vector<Expr> TakeShape(const TensorType& x, const TensorType& index, int64_t dim) {
  std::vector<Expr> shape(x.shape.begin(), x.shape.begin() + dim);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), x.shape.begin() + dim + 1, x.shape.end());
  return shape;
}

Types Take(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  RETURN_IF_ERROR(CheckIndex(a, operands[1].type()));
  ASSIGN_OR_RETURN(int64_t dim, a.Dim("dim", x.rank()));
  TensorType result{x.dtype, TakeShape(x, operands[1].type(), dim)};
  RETURN_IF_ERROR(a.CheckSizes(result));
  return std::vector{result};
}

absl::Status CheckGathered(OpAttrs& a, const TensorType& x, const TensorType& index, int64_t dim) {
  RETURN_IF_ERROR(CheckIndex(a, index));
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    auto have = x.shape[i].constant();
    auto want = index.shape[i].constant();
    fits = i == dim || !have || !want || *want <= *have;
  }
  if (fits) return absl::OkStatus();
  return a.Fail(absl::StrCat("an index ", index.ToString(), " does not fit ", x.ToString()));
}

Types Gather(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  ASSIGN_OR_RETURN(int64_t dim, a.Dim("dim", x.rank()));
  RETURN_IF_ERROR(CheckGathered(a, x, operands[1].type(), dim));
  return One(x.dtype, operands[1].shape());
}

absl::Status CheckReduceAttr(OpAttrs& a, const TensorType& x) {
  ASSIGN_OR_RETURN(const std::string* reduce, a.Get<std::string>("reduce"));
  for (absl::string_view known : {"set", "add", "mul", "max", "min"}) {
    if (*reduce == known && (known == "set" || !IsComplex(x.dtype))) return absl::OkStatus();
  }
  return a.Fail(absl::StrCat("reduce is set, add, mul, max or min (complex: set), not ", reduce->substr(0, 40)));
}

Types Scatter(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  ASSIGN_OR_RETURN(int64_t dim, a.Dim("dim", x.rank()));
  RETURN_IF_ERROR(CheckGathered(a, x, operands[1].type(), dim));
  RETURN_IF_ERROR(CheckReduceAttr(a, x));
  TensorType expected{x.dtype, operands[1].shape()};
  if (operands[2].type() != expected) {
    return a.Fail(absl::StrCat("src is ", operands[2].type().ToString(), ", not ", expected.ToString()));
  }
  return std::vector{x};
}

Types PutRows(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  RETURN_IF_ERROR(CheckIndex(a, operands[1].type()));
  ASSIGN_OR_RETURN(int64_t dim, a.Dim("dim", x.rank()));
  RETURN_IF_ERROR(CheckReduceAttr(a, x));
  TensorType expected{x.dtype, TakeShape(x, operands[1].type(), dim)};
  if (operands[2].type() != expected) {
    return a.Fail(absl::StrCat("src is ", operands[2].type().ToString(), ", not ", expected.ToString()));
  }
  return std::vector{x};
}

Types Sort(OpAttrs& a, absl::Span<const Value> operands) {
  const TensorType& x = operands[0].type();
  RETURN_IF_ERROR(CheckDomain(a, x));
  RETURN_IF_ERROR(a.Dim("dim", x.rank()).status());
  ASSIGN_OR_RETURN(const int64_t* descending, a.Get<int64_t>("descending"));
  if (*descending != 0 && *descending != 1) return a.Fail("descending is 0 or 1");
  return std::vector{x, TensorType{DType::kI64, x.shape}};
}

Types ByRule(OpAttrs& a, absl::Span<const Value> operands, const std::vector<TensorType>& declared) {
  switch (Info(a.op()).rule) {
    case TypeRule::kDeclared: return Declared(a, operands, declared);
    case TypeRule::kSame: return Same(a, operands);
    case TypeRule::kBoolOf: return BoolOf(a, operands);
    case TypeRule::kCast: return Cast(a, operands);
    case TypeRule::kWhere: return Where(a, operands);
    case TypeRule::kReduce: return Reduce(a, operands);
    case TypeRule::kArgReduce: return ArgReduce(a, operands);
    case TypeRule::kReshape: return Reshape(a, operands);
    case TypeRule::kPermute: return Permute(a, operands);
    case TypeRule::kBroadcast: return Broadcast(a, operands);
    case TypeRule::kSlice: return Slice(a, operands);
    case TypeRule::kPad: return Pad(a, operands);
    case TypeRule::kWindow: return Window(a, operands);
    case TypeRule::kConcat: return Concat(a, operands);
    case TypeRule::kTake: return Take(a, operands);
    case TypeRule::kGather: return Gather(a, operands);
    case TypeRule::kSort: return Sort(a, operands);
    case TypeRule::kMatMul: return InferMatMul(a, operands);
    case TypeRule::kConv: return InferConv(a, operands);
  }
  return a.Fail("has no type rule");
}

}  // namespace

Types InferTypes(Op op, absl::Span<const Value> operands, const Attrs& attrs, const std::vector<TensorType>& declared) {
  OpAttrs a(op, attrs);
  const OpInfo& info = Info(op);
  if (info.arity != kAny && static_cast<int>(operands.size()) != info.arity) {
    return a.Fail(absl::StrCat("takes ", info.arity, " operands, not ", operands.size()));
  }
  for (const Value& operand : operands) {
    if (!operand || operand.index < 0 || operand.index >= static_cast<int>(operand.node->results().size())) {
      return a.Fail("an operand is no value");
    }
  }
  if (info.rule != TypeRule::kDeclared && !declared.empty()) return a.Fail("its result types are inferred");
  ASSIGN_OR_RETURN(std::vector<TensorType> results, ByRule(a, operands, declared));
  RETURN_IF_ERROR(a.CheckNothingElse());
  return results;
}

}  // namespace preheat::ir
