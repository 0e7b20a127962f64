#include "compiler/capture/torch_script/evaluator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/capture/torch_script/places.h"
#include "compiler/capture/torch_script/scalars.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {

using c10::IValue;
using torch::jit::Value;

namespace {

constexpr int64_t kMaxSteps = 2'000'000;           // of an evaluation: loops unrolled
constexpr int64_t kMaxZeros = int64_t{256} << 20;  // bytes that an operator without a form for meta tensors may take

// Whether a tensor without memory is in it.
bool HasMeta(const IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().is_meta();
  if (value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    return std::any_of(items.begin(), items.end(), [](const IValue& v) { return HasMeta(v); });
  }
  if (value.isList()) {
    c10::ArrayRef<IValue> items = value.toListRef();
    return std::any_of(items.begin(), items.end(), [](const IValue& v) { return HasMeta(v); });
  }
  return false;
}

bool HasTensor(const IValue& value) { return value.isTensor() || value.isTensorList(); }

// Every tensor in it replaced.
IValue Mapped(const IValue& value, const std::function<at::Tensor(const at::Tensor&)>& map) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(map(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(map(tensor));
    return list;
  }
  if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
    c10::impl::GenericList list(value.toList().elementType());
    for (const IValue& item : value.toListRef()) list.push_back(Mapped(item, map));
    return list;
  }
  return value;
}

at::Tensor ToMeta(const at::Tensor& tensor) {
  if (tensor.is_meta()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

}  // namespace

Evaluator::Evaluator(const torch::jit::Module& module, ProgramBuilder& builder) : root_(builder), builder_(&builder) {
  for (const auto& item : module.named_buffers(/*recurse=*/true))
    names_[item.value.unsafeGetTensorImpl()] = {item.name, false};
  for (const auto& item : module.named_parameters(/*recurse=*/true))
    names_[item.value.unsafeGetTensorImpl()] = {item.name, true};
}

absl::StatusOr<IValue> Evaluator::Run(torch::jit::Graph& graph, const std::vector<IValue>& inputs) {
  torch::jit::Inline(graph);
  for (size_t i = 0; i < inputs.size(); ++i) Set(graph.inputs()[i], inputs[i]);
  RETURN_IF_ERROR(RunBlock(*graph.block()));
  if (graph.outputs().size() != 1) return absl::InternalError("a TorchScript method has one result");
  return Get(graph.outputs()[0]);
}

absl::Status Evaluator::RunBlock(const Block& block) {
  for (Node* node : const_cast<Block&>(block).nodes()) {
    if (++steps_ > kMaxSteps) return Unsupported(node, absl::StrCat("more than ", kMaxSteps, " steps"));
    RETURN_IF_ERROR(Step(node));
  }
  return absl::OkStatus();
}

std::vector<IValue> Evaluator::Inputs(Node* node) const {
  std::vector<IValue> inputs;
  for (const Value* value : node->inputs()) inputs.push_back(Get(value));
  return inputs;
}

absl::Status Evaluator::Step(Node* node) {
  namespace prim = c10::prim;
  switch (node->kind()) {
    case prim::Constant: {
      auto value = torch::jit::toIValue(node->output());
      Set(node->output(), value ? *value : IValue());
      return absl::OkStatus();
    }
    case prim::If: return RunIf(node);
    case prim::Loop: return RunLoop(node);
    case prim::GetAttr: return ReadAttribute(node);
    case prim::CallMethod: return CallMethod(node);
    case prim::SetAttr: return Unsupported(node, "forward assigns an attribute");
    case prim::RaiseException: return Unsupported(node, "forward raises an exception for these inputs");
    case prim::Print:
    case c10::aten::warn: return absl::OkStatus();
    case prim::unchecked_cast:
    case prim::unchecked_unwrap_optional:
    case c10::aten::_unwrap_optional: Set(node->output(), Get(node->input(0))); return absl::OkStatus();
    case prim::Uninitialized: Set(node->output(), IValue()); return absl::OkStatus();
    case prim::TupleConstruct: {
      Set(node->output(), c10::ivalue::Tuple::create(Inputs(node)));
      return absl::OkStatus();
    }
    case prim::TupleUnpack: {
      const IValue tuple = Get(node->input());
      for (size_t i = 0; i < node->outputs().size(); ++i) Set(node->outputs()[i], tuple.toTupleRef().elements()[i]);
      return absl::OkStatus();
    }
    case prim::ListUnpack: {
      const IValue list = Get(node->input());
      for (size_t i = 0; i < node->outputs().size(); ++i) Set(node->outputs()[i], list.toListRef()[i]);
      return absl::OkStatus();
    }
    case prim::ListConstruct: {
      c10::impl::GenericList list(node->output()->type()->expectRef<c10::ListType>().getElementType());
      for (IValue& item : Inputs(node)) list.push_back(std::move(item));
      Set(node->output(), std::move(list));
      return absl::OkStatus();
    }
    case prim::DictConstruct: {
      const auto& type = node->output()->type()->expectRef<c10::DictType>();
      c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
      std::vector<IValue> inputs = Inputs(node);
      for (size_t i = 0; i + 1 < inputs.size(); i += 2) dict.insert_or_assign(inputs[i], inputs[i + 1]);
      Set(node->output(), std::move(dict));
      return absl::OkStatus();
    }
    default: return CallOperator(node);
  }
}

absl::Status Evaluator::RunIf(Node* node) {
  const IValue condition = Get(node->input(0));
  if (condition.isTensor()) return BranchOnData(node, condition.toTensor());
  const Block* block = node->blocks()[condition.toBool() ? 0 : 1];
  RETURN_IF_ERROR(RunBlock(*block));
  for (size_t i = 0; i < node->outputs().size(); ++i) Set(node->outputs()[i], Get(block->outputs()[i]));
  return absl::OkStatus();
}

// Inputs: trip count, first condition, what is carried; the body gives the next condition and what is carried on.
absl::Status Evaluator::RunLoop(Node* node) {
  const Block* body = node->blocks()[0];
  const IValue trips = Get(node->input(0));
  IValue more = Get(node->input(1));
  std::vector<IValue> carried;
  for (size_t i = 2; i < node->inputs().size(); ++i) carried.push_back(Get(node->input(i)));
  int64_t trip = 0;
  for (; trips.isInt() && more.isBool() && more.toBool() && trip < trips.toInt(); ++trip) {
    Set(body->inputs()[0], trip);
    for (size_t i = 0; i < carried.size(); ++i) Set(body->inputs()[i + 1], carried[i]);
    RETURN_IF_ERROR(RunBlock(*body));
    more = Get(body->outputs()[0]);
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = Get(body->outputs()[i + 1]);
  }
  const bool over = trips.isInt() && trip >= trips.toInt();
  if (!over && (trips.isTensor() || more.isTensor())) return LoopOnData(node, trips, trip, more, carried);
  for (size_t i = 0; i < carried.size(); ++i) Set(node->outputs()[i], carried[i]);
  return absl::OkStatus();
}

absl::Status Evaluator::ReadAttribute(Node* node) {
  IValue value = Get(node->input()).toObjectRef().getAttr(node->s(c10::attr::name));
  if (value.isTensor() && value.toTensor().defined()) {
    const at::Tensor tensor = value.toTensor();
    at::Tensor& input = inputs_[tensor.unsafeGetTensorImpl()];
    if (!input.defined()) {
      auto named = names_.find(tensor.unsafeGetTensorImpl());
      const bool known = named != names_.end();
      input = root_.AddInput(known ? named->second.first : node->s(c10::attr::name),
                             known && named->second.second ? ir::InputKind::kParameter : ir::InputKind::kBuffer,
                             tensor.sizes(), tensor.strides(), tensor.scalar_type());
    }
    value = input;
  }
  Set(node->output(), std::move(value));
  return absl::OkStatus();
}

// What inlining has left: a method of an interface.
absl::Status Evaluator::CallMethod(Node* node) {
  std::vector<IValue> inputs = Inputs(node);
  if (!inputs[0].isObject()) return Unsupported(node, "a method of something that is no module");
  torch::jit::Function& method = inputs[0].toObjectRef().type()->getMethod(node->s(c10::attr::name));
  auto* function = torch::jit::tryToGraphFunction(method);
  if (function == nullptr) return Unsupported(node, "a method without a graph");
  auto graph = function->graph()->copy();
  ASSIGN_OR_RETURN(IValue result, Run(*graph, inputs));
  Set(node->output(), std::move(result));
  return absl::OkStatus();
}

std::vector<IValue> Evaluator::Execute(Node* node, std::vector<IValue> arguments) {
  torch::jit::Operation operation = node->getOperator().getOperation(node);
  std::vector<IValue> stack = arguments;
  const bool meta = std::any_of(arguments.begin(), arguments.end(), HasMeta);
  try {
    for (IValue& value : stack) {
      if (meta) value = Mapped(value, ToMeta);
      if (value.isDevice()) value = c10::Device(at::kMeta);
    }
    operation(stack);
    return stack;
  } catch (const c10::NotImplementedError&) {
    if (!meta) throw;
  }
  stack = arguments;
  for (IValue& value : stack) {
    value = Mapped(value, [](const at::Tensor& tensor) {
      if (!tensor.is_meta()) return tensor;
      TORCH_CHECK(static_cast<int64_t>(tensor.nbytes()) <= kMaxZeros, "an operator needs tensors with memory of ",
                  tensor.nbytes(), " bytes");
      at::Tensor zeros = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
      return zeros.zero_();
    });
  }
  operation(stack);
  for (IValue& value : stack) value = Mapped(value, ToMeta);
  return stack;
}

// On the very lists and tensors that it is given: it may write into a list, or take a tensor out of one. A tensor that
// it makes of numbers (torch.tensor) is a constant.
absl::Status Evaluator::CallInterpreter(Node* node, const c10::FunctionSchema& schema, std::vector<IValue> arguments) {
  if (schema.is_mutable() && builder_ != &root_) return DataDependent(node, "what a list holds");
  for (IValue& value : arguments) {
    if (value.isDevice()) value = c10::Device(at::kCPU);
  }
  node->getOperator().getOperation(node)(arguments);
  for (size_t i = 0; i < node->outputs().size(); ++i) Set(node->outputs()[i], arguments[i]);
  return absl::OkStatus();
}

absl::Status Evaluator::CallOperator(Node* node) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr || node->maybeOperator() == nullptr) return Unsupported(node, "what has no operator");
  std::vector<IValue> arguments = Inputs(node);
  const bool meta = std::any_of(arguments.begin(), arguments.end(), HasMeta);
  if (meta && arguments.size() == 1 && arguments[0].isTensor() && ReadsNumber(schema->name()))
    return ReadContents(node, schema->name(), arguments[0].toTensor());
  if (meta && ReadsContents(schema->name())) return DataDependent(node, schema->name());
  if (HasDataNumber(*schema, arguments)) return CallOnNumbers(node, schema->name(), std::move(arguments));
  // Operators of the dispatcher become nodes; lists, numbers and strings are the interpreter's own.
  if (!c10::Dispatcher::singleton().findSchema(schema->operator_name()).has_value())
    return CallInterpreter(node, *schema, std::move(arguments));
  const bool creates = !meta && std::any_of(schema->returns().begin(), schema->returns().end(), [](const auto& r) {
    return r.type()->kind() == c10::TypeKind::TensorType;
  });
  std::vector<IValue> results;
  if (creates && std::none_of(arguments.begin(), arguments.end(), HasTensor)) {
    // zeros, arange, full: without operands it is made on the meta device, by a device argument of its own.
    std::vector<IValue> there = arguments;
    for (size_t i = 0; i < there.size(); ++i) {
      if (schema->arguments()[i].name() == "device") there[i] = c10::Device(at::kMeta);
    }
    results = Execute(node, std::move(there));
  } else {
    results = Execute(node, arguments);
  }
  for (size_t i = 0; i < node->outputs().size(); ++i) Set(node->outputs()[i], results[i]);
  const bool gives =
      std::any_of(results.begin(), results.end(), [](const IValue& v) { return HasTensor(v) && HasMeta(v); });
  if (!gives) return absl::OkStatus();
  return builder_->AddCall(*schema, arguments, results, PlaceOf(node));
}

}  // namespace preheat::capture
