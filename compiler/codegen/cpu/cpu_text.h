#ifndef PREHEAT_COMPILER_CODEGEN_CPU_CPU_TEXT_H_
#define PREHEAT_COMPILER_CODEGEN_CPU_CPU_TEXT_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/codegen/emitted_kernel.h"
#include "compiler/codegen/kernel_text.h"
#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// What is passed to a CPU kernel, as its source declares it; kernels/device/kernel_args.h.
inline constexpr char kArgsStruct[] =
    "struct Args { void* const* buffers; const long* scalars; int* error; void* scratch; };\n";

// How the statements of a kernel are spelled in C++ for the host, and the function around them. The base of the
// emitters; not for use elsewhere.
class CpuText : public KernelText {
 public:
  explicit CpuText(const Kernel& kernel) : KernelText(kernel, 0) {}

 protected:
  // --- The kernel's frame ---
  void OpenKernel();   // the function, and names for what it is passed
  void OpenItems();    // the loop over items
  void DefineOuter();  // the outer loops' variables, from what is left of an item's number in "q"
  void CloseKernel();  // items and function
  // The source of the kernel that was printed.
  absl::StatusOr<EmittedKernel> Finish();

  // --- Statements ---
  std::string Ref(int s) const override;
  void Define(int s);  // "const float v3 = ...;", and the report of an index that is out of range
  void EmitStore(const Store& store) { Line(StoreStatement(store)); }
  void OpenLoop(const Loop& loop, absl::string_view begin, absl::string_view end);

  // --- Reductions ---
  // The accumulator `prefix`<a>`suffix` takes one more value.
  void Fold(int a, const std::string& v, absl::string_view prefix, absl::string_view suffix);

  std::string helpers_;  // functions of the kernel's own

 private:
  void FoldPosition(int a, const std::string& v, absl::string_view suffix);
  std::string TargetPragma() const;
  std::string DeclaredReductions() const;
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_CPU_CPU_TEXT_H_
