#ifndef PREHEAT_COMPILER_CODEGEN_KERNEL_TEXT_H_
#define PREHEAT_COMPILER_CODEGEN_KERNEL_TEXT_H_

#include <set>
#include <string>

#include "compiler/codegen/indented_text.h"
#include "compiler/codegen/loop_ir.h"

namespace preheat::codegen {

// How the statements of a kernel are spelled in C: the base of the targets' emitters, which say where values are and
// what their dialect spells otherwise; not for use elsewhere. Statement s is the variable "v<s>", buffer b the pointer
// "b<b>", scratch array t the pointer "t<t>", accumulator a the variable "r<a>", its position "r<a>i".
class KernelText : protected IndentedText {
 protected:
  KernelText(const Kernel& kernel, int indent) : IndentedText(indent), k_(kernel) {}
  virtual ~KernelText() = default;

  // The variable, or element of an array, that holds a statement's value.
  virtual std::string Ref(int s) const = 0;
  // A size by its name.
  virtual std::string SizeText(const std::string& symbol) const { return symbol; }
  // What a load reads from memory: "b2[index]".
  virtual std::string Element(const Stmt& load);
  virtual std::string LoadValue(const Stmt& load);
  virtual std::string CastValue(const Stmt& cast);
  virtual std::string OpValue(const Stmt& stmt);
  virtual std::string Stored(const Store& store);  // the value as memory holds it

  std::string TypeName(int s) const;
  std::string BufferType(size_t b) const;  // "const float", without const where the kernel writes
  std::string Index(const ir::Expr& e);
  std::string Value(const Stmt& stmt);
  // The condition under which a statement sets the error word. REQUIRES: it has an error site.
  std::string Failure(const Stmt& stmt);
  std::string StoreStatement(const Store& store);

  std::string Identity(int a) const;
  // The statement by which `into` takes one more value. REQUIRES: the accumulator keeps no position.
  std::string FoldStatement(int a, const std::string& into, const std::string& v);

  const Kernel& k_;
  std::set<std::string> math_;  // functions that the source must bring, by their names in cpu/math_functions.h

 private:
  std::string ConditionText(const Stmt& stmt);
  std::string WrapText(const Stmt& stmt);
};

}  // namespace preheat::codegen

#endif  // PREHEAT_COMPILER_CODEGEN_KERNEL_TEXT_H_
