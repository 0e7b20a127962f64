#ifndef PREHEAT_COMPILER_CAPTURE_EXPORT_READER_H_
#define PREHEAT_COMPILER_CAPTURE_EXPORT_READER_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/capture/aten_program.h"
#include "compiler/capture/json_text.h"

namespace preheat::capture {

// Reads the small parts of torch.export's JSON: types, sizes, arguments. One per archive; it owns the
// renaming of symbols to d0, d1, ... in order of first appearance.
class ExportReader {
 public:
  // `range_constraints` as in the archive; must outlive the reader.
  explicit ExportReader(const Json& range_constraints) : ranges_(range_constraints) {}

  // A graph's names: tensors and sizes by name, seen so far or declared.
  struct Scope {
    const Json* graph;                 // tensor_values, sym_int_values, ...
    std::map<std::string, int> value;  // name -> id, of those defined so far
  };

  absl::StatusOr<ir::DType> DTypeOf(const Json& number) const;
  absl::StatusOr<AtenType> TypeOf(const Json& tensor_meta);
  absl::StatusOr<AtenType> DeclaredType(const Scope& scope, const std::string& name);
  // Where the tensor's first element lies in its storage, in elements.
  absl::StatusOr<ir::Expr> StorageOffset(const Scope& scope, const std::string& name);
  // SymInt: {"as_int": 3} or {"as_expr": {"expr_str": ...}}.
  absl::StatusOr<ir::Expr> SizeOf(const Json& sym_int);
  // The declared size of that name ("sym_size_int_3").
  absl::StatusOr<ir::Expr> NamedSize(const Scope& scope, const std::string& name);
  absl::StatusOr<ValueRef> Tensor(const Scope& scope, const Json& tensor_argument) const;
  absl::StatusOr<Argument> ArgumentOf(const Scope& scope, const Json& union_value);

  // Symbols met so far, in order, and their names in the archive.
  const std::vector<ir::Symbol>& symbols() const { return symbols_; }
  const std::map<std::string, std::string>& canonical() const { return canonical_; }  // "s77" -> "d0"

 private:
  absl::StatusOr<ir::Expr> Symbol(const std::string& name);
  absl::StatusOr<ir::Expr> SymIntArgument(const Scope& scope, const Json& argument);
  absl::StatusOr<Argument> ListArgument(const Scope& scope, const std::string& kind, const Json& items);
  absl::StatusOr<Argument> TensorsArgument(const Scope& scope, const Json& items) const;
  absl::StatusOr<Argument> SizesArgument(const Scope& scope, const Json& items);
  absl::StatusOr<Argument> SymbolicScalar(const Scope& scope, const std::string& kind, const Json& argument);

  const Json& ranges_;
  std::vector<ir::Symbol> symbols_;
  std::map<std::string, std::string> canonical_;
};

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_EXPORT_READER_H_
