#include "compiler/ir/op_attrs.h"

#include "absl/strings/str_cat.h"
#include "compiler/support/status_macros.h"

namespace preheat::ir {

absl::Status OpAttrs::Fail(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(Info(op_).name, ": ", what));
}

absl::StatusOr<int64_t> OpAttrs::Dim(const std::string& name, int rank) {
  ASSIGN_OR_RETURN(const int64_t* dim, Get<int64_t>(name));
  if (*dim < 0 || *dim >= rank) return Fail(absl::StrCat(name, " = ", *dim, " is not below the rank ", rank));
  return *dim;
}

absl::StatusOr<const std::vector<int64_t>*> OpAttrs::Dims(const std::string& name, int rank) {
  ASSIGN_OR_RETURN(const std::vector<int64_t>* dims, Get<std::vector<int64_t>>(name));
  std::set<int64_t> seen;
  for (int64_t dim : *dims) {
    if (dim < 0 || dim >= rank) return Fail(absl::StrCat(name, " has ", dim, ", which is not below the rank ", rank));
    if (!seen.insert(dim).second) return Fail(absl::StrCat(name, " has ", dim, " twice"));
  }
  return dims;
}

absl::StatusOr<int64_t> OpAttrs::Positive(const std::string& name) {
  ASSIGN_OR_RETURN(const int64_t* value, Get<int64_t>(name));
  if (*value < 1 || *value > (int64_t{1} << 31)) return Fail(absl::StrCat(name, " = ", *value, " is not 1 to 2^31"));
  return *value;
}

absl::StatusOr<const std::vector<int64_t>*> OpAttrs::Small(const std::string& name, int count, int64_t min) {
  ASSIGN_OR_RETURN(const std::vector<int64_t>* values, Each<int64_t>(name, count));
  for (int64_t value : *values) {
    if (value < min || value > (int64_t{1} << 31)) {
      return Fail(absl::StrCat(name, " has ", value, ", which is not ", min, " to 2^31"));
    }
  }
  return values;
}

absl::Status OpAttrs::CheckScalar(const std::string& name, DType dtype) {
  if (IsComplex(dtype)) return Fail("complex tensors have no scalars");
  return IsFloat(dtype) ? Get<double>(name).status() : Get<int64_t>(name).status();
}

namespace {

// False when `e` has more parts than are left in `budget`: shapes of shapes may nest without end, and each
// later step walks them.
bool Spend(const Expr& e, int& budget) {
  if (e.is_constant()) return --budget >= 0;
  for (const auto& [monomial, coefficient] : e.terms()) {
    if (--budget < 0) return false;
    for (const Expr::Atom& atom : monomial) {
      if (--budget < 0) return false;
      for (const Expr& arg : atom.args) {
        if (!Spend(arg, budget)) return false;
      }
    }
  }
  return true;
}

}  // namespace

bool IsManageable(absl::Span<const Expr> shape) {
  int budget = 1024;
  size_t product_terms = 1;
  for (const Expr& size : shape) {
    if (!Spend(size, budget)) return false;
    if (!size.is_constant()) product_terms *= size.terms().size();
    if (product_terms > 1024) return false;
  }
  return true;
}

absl::Status OpAttrs::CheckSizes(const TensorType& type) const {
  if (type.rank() > kMaxRank) return Fail(absl::StrCat("a rank of ", type.rank(), " is above ", kMaxRank));
  if (!IsManageable(type.shape)) return Fail("the expressions of a shape are too large");
  int64_t elements = 1;
  for (const Expr& size : type.shape) {
    std::optional<int64_t> value = size.constant();
    if (!value) continue;
    if (*value < 0) return Fail(absl::StrCat("the shape of ", type.ToString(), " is negative"));
    if (*value > kMaxElements || (*value > 0 && elements > kMaxElements / *value)) {
      return Fail(absl::StrCat("the shape of ", type.ToString(), " is too large"));
    }
    if (*value > 0) elements *= *value;  // an empty tensor's other sizes are bounded as well
  }
  return absl::OkStatus();
}

absl::Status OpAttrs::CheckNothingElse() const {
  for (const auto& [name, value] : attrs_) {
    if (asked_.count(name) == 0) return Fail(absl::StrCat("has no attribute ", name.substr(0, 40)));
  }
  return absl::OkStatus();
}

}  // namespace preheat::ir
