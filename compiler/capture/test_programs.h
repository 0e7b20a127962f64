#ifndef PREHEAT_COMPILER_CAPTURE_TEST_PROGRAMS_H_
#define PREHEAT_COMPILER_CAPTURE_TEST_PROGRAMS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/capture/aten_program.h"

// For tests: programs written by hand, without types to repeat.
namespace preheat::capture {

class ProgramWriter {
 public:
  AtenProgram program;

  int Value(std::vector<ir::Expr> shape, ir::DType dtype = ir::DType::kF32) {
    AtenValue value;
    value.type.tensor = {dtype, shape};
    value.type.strides = ir::RowMajorStrides(shape);
    program.values.push_back(std::move(value));
    return static_cast<int>(program.values.size()) - 1;
  }
  int Input(std::vector<ir::Expr> shape, ir::DType dtype = ir::DType::kF32, ir::InputKind kind = ir::InputKind::kUser) {
    int id = Value(std::move(shape), dtype);
    program.inputs.push_back({.value = id, .kind = kind, .frozen = false});
    return id;
  }
  // A node of one result; arguments in order as (name, value).
  int Call(std::string op, std::vector<std::pair<std::string, Argument>> args, std::vector<ir::Expr> shape,
           ir::DType dtype = ir::DType::kF32) {
    AtenNode node{.op = std::move(op), .args = {}, .results = {Value(std::move(shape), dtype)}};
    for (auto& [name, value] : args) node.args.push_back({.name = name, .value = std::move(value), .keyword = false});
    program.nodes.push_back(std::move(node));
    return program.nodes.back().results[0];
  }
  // Control flow with one result.
  int Control(const char* op, int condition, std::vector<std::optional<ValueRef>> operands,
              std::vector<AtenProgram> blocks, std::vector<ir::Expr> shape) {
    const int result =
        Call(op, {{"condition", ValueRef{condition}}, {"operands", std::move(operands)}}, std::move(shape));
    program.nodes.back().blocks = std::move(blocks);
    return result;
  }
  void Output(int value) { program.outputs.push_back({.value = value}); }
};

inline Argument T(int value) { return ValueRef{value}; }
inline Argument I(ir::Expr value) { return value; }

}  // namespace preheat::capture

#endif  // PREHEAT_COMPILER_CAPTURE_TEST_PROGRAMS_H_
