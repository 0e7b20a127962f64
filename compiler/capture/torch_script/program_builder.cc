#include "compiler/capture/torch_script/program_builder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

absl::Status Unsupported(const std::string& what) {
  return MakeError(absl::StatusCode::kUnimplemented, {.kind = "unsupported_torch_script", .message = what});
}

std::optional<ir::DType> DTypeOf(c10::ScalarType type) {
  switch (type) {
    case at::kBool: return ir::DType::kBool;
    case at::kByte: return ir::DType::kU8;
    case at::kChar: return ir::DType::kI8;
    case at::kShort: return ir::DType::kI16;
    case at::kInt: return ir::DType::kI32;
    case at::kLong: return ir::DType::kI64;
    case at::kHalf: return ir::DType::kF16;
    case at::kBFloat16: return ir::DType::kBF16;
    case at::kFloat: return ir::DType::kF32;
    case at::kDouble: return ir::DType::kF64;
    case at::kComplexFloat: return ir::DType::kC64;
    case at::kComplexDouble: return ir::DType::kC128;
    default: return std::nullopt;
  }
}

// What a schema calls the type of an argument, without the optional around it.
c10::TypeKind KindOf(const c10::Argument& formal) {
  c10::TypePtr type = formal.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind();
}

const char* LayoutName(int64_t layout) { return layout == static_cast<int64_t>(c10::Layout::Strided) ? "strided" : ""; }

const char* MemoryFormatName(int64_t format) {
  switch (static_cast<c10::MemoryFormat>(format)) {
    case c10::MemoryFormat::Contiguous: return "contiguous_format";
    case c10::MemoryFormat::ChannelsLast: return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d: return "channels_last_3d";
    default: return "preserve_format";
  }
}

// "aten::add", "Tensor" is "aten.add.Tensor".
std::string NameOf(const c10::FunctionSchema& schema) {
  std::string name = schema.name();
  if (size_t colons = name.find("::"); colons != std::string::npos) name.replace(colons, 2, ".");
  return absl::StrCat(name, ".", schema.overload_name().empty() ? "default" : schema.overload_name());
}

std::string BytesOf(const at::Tensor& tensor) {
  at::Tensor dense = tensor.contiguous();
  return std::string(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
}

}  // namespace

int ProgramBuilder::NewValue(const at::Tensor& tensor) {
  AtenValue value;
  value.type.tensor.dtype = DTypeOf(tensor.scalar_type()).value_or(ir::DType::kF32);
  for (int64_t size : tensor.sizes()) value.type.tensor.shape.emplace_back(size);
  for (int64_t stride : tensor.strides()) value.type.strides.emplace_back(stride);
  program_.values.push_back(std::move(value));
  return static_cast<int>(program_.values.size()) - 1;
}

at::Tensor ProgramBuilder::AddInput(const std::string& name, ir::InputKind kind, at::IntArrayRef sizes,
                                    at::IntArrayRef strides, c10::ScalarType dtype) {
  at::Tensor tensor = at::empty_strided(sizes, strides, at::TensorOptions().dtype(dtype).device(at::kMeta));
  const int id = NewValue(tensor);
  ids_[tensor.unsafeGetTensorImpl()] = id;
  alive_.push_back(tensor);
  program_.inputs.push_back({.value = id, .kind = kind});
  program_.debug.input_names.push_back(name);
  return tensor;
}

bool ProgramBuilder::Knows(const at::Tensor& tensor) const {
  return ids_.count(tensor.unsafeGetTensorImpl()) != 0 || (parent_ != nullptr && parent_->Knows(tensor));
}

int ProgramBuilder::Capture(const at::Tensor& tensor) {
  const int id = NewValue(tensor);
  ids_[tensor.unsafeGetTensorImpl()] = id;
  alive_.push_back(tensor);
  captured_.push_back(tensor);
  program_.inputs.push_back({.value = id, .kind = ir::InputKind::kUser});
  return id;
}

AtenProgram ProgramBuilder::FinishBlock(const std::vector<at::Tensor>& captured) {
  for (const at::Tensor& tensor : captured) {
    if (ids_.count(tensor.unsafeGetTensorImpl()) == 0) Capture(tensor);
  }
  program_.inputs.resize(program_.inputs.size() - captured_.size());
  for (const at::Tensor& tensor : captured) {
    program_.inputs.push_back({.value = ids_.at(tensor.unsafeGetTensorImpl()), .kind = ir::InputKind::kUser});
  }
  program_.debug.input_names.clear();
  return std::move(program_);
}

absl::StatusOr<int> ProgramBuilder::IdOf(const at::Tensor& tensor) {
  auto known = ids_.find(tensor.unsafeGetTensorImpl());
  if (known != ids_.end()) return known->second;
  if (parent_ != nullptr && parent_->Knows(tensor)) return Capture(tensor);
  if (tensor.is_meta()) return Unsupported("a tensor comes from where this importer cannot see it made");
  if (tensor.nbytes() > kMaxConstantBytes || !DTypeOf(tensor.scalar_type())) {
    return Unsupported(absl::StrCat("a constant of ", tensor.nbytes(), " bytes in the code; make it a buffer"));
  }
  const int id = NewValue(tensor.contiguous());
  program_.constants.push_back({id, BytesOf(tensor)});
  ids_[tensor.unsafeGetTensorImpl()] = id;
  alive_.push_back(tensor);
  return id;
}

absl::StatusOr<Argument> ProgramBuilder::ToArgument(const c10::IValue& value, const c10::Argument& formal) {
  if (value.isNone()) return Argument(None{});
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return Argument(None{});
    ASSIGN_OR_RETURN(int id, IdOf(value.toTensor()));
    return Argument(ValueRef{id});
  }
  if (value.isInt()) {
    const int64_t number = value.toInt();
    switch (KindOf(formal)) {
      case c10::TypeKind::ScalarTypeType: {
        auto dtype = DTypeOf(static_cast<c10::ScalarType>(number));
        if (!dtype) return Unsupported(absl::StrCat("dtype number ", number));
        return Argument(*dtype);
      }
      case c10::TypeKind::LayoutType: return Argument(Enum{Enum::Kind::kLayout, LayoutName(number)});
      case c10::TypeKind::MemoryFormatType: return Argument(Enum{Enum::Kind::kMemoryFormat, MemoryFormatName(number)});
      default: return Argument(ir::Expr(number));
    }
  }
  if (value.isDouble()) return Argument(value.toDouble());
  if (value.isBool()) return Argument(value.toBool());
  if (value.isString()) return Argument(value.toStringRef());
  if (value.isDevice()) return Argument(Enum{Enum::Kind::kDevice, "cpu"});
  if (value.isComplexDouble()) return Argument(Complex{value.toComplexDouble().real(), value.toComplexDouble().imag()});
  if (value.isIntList()) {
    std::vector<ir::Expr> numbers;
    for (int64_t number : value.toIntVector()) numbers.emplace_back(number);
    return Argument(std::move(numbers));
  }
  if (value.isDoubleList()) return Argument(value.toDoubleVector());
  if (value.isBoolList()) {
    std::vector<bool> flags;
    for (bool flag : value.toBoolList()) flags.push_back(flag);
    return Argument(std::move(flags));
  }
  if (value.isList()) {
    std::vector<std::optional<ValueRef>> refs;
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isNone()) {
        refs.emplace_back();
        continue;
      }
      if (!item.isTensor()) return Unsupported(absl::StrCat("a list as argument ", formal.name()));
      ASSIGN_OR_RETURN(int id, IdOf(item.toTensor()));
      refs.emplace_back(ValueRef{id});
    }
    return Argument(std::move(refs));
  }
  return Unsupported(absl::StrCat("argument ", formal.name(), " is a ", value.tagKind()));
}

absl::Status ProgramBuilder::AddCall(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                                     const std::vector<c10::IValue>& results, const std::string& place) {
  AtenNode node;
  node.op = NameOf(schema);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    ASSIGN_OR_RETURN(Argument argument, ToArgument(arguments[i], formal));
    node.args.push_back({formal.name(), std::move(argument), formal.kwarg_only()});
  }
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& result : results) {
    if (result.isTensorList()) {
      node.result_is_list = true;
      for (const at::Tensor& tensor : result.toTensorVector()) tensors.push_back(tensor);
    } else {
      tensors.push_back(result.isTensor() ? result.toTensor() : at::Tensor());
    }
  }
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      node.results.push_back(-1);
      continue;
    }
    if (!DTypeOf(tensor.scalar_type())) return Unsupported(absl::StrCat(node.op, " gives a type that is not known"));
    node.results.push_back(NewValue(tensor));
    // An operator that writes gives its operand back: that keeps its first number, as any view of it does.
    if (ids_.emplace(tensor.unsafeGetTensorImpl(), node.results.back()).second) alive_.push_back(tensor);
  }
  node.debug_id = AddLocation(node.op, place);
  program_.nodes.push_back(std::move(node));
  return absl::OkStatus();
}

int ProgramBuilder::AddLocation(const std::string& op, const std::string& place) {
  program_.debug.locations.push_back({op, "", place});
  return static_cast<int>(program_.debug.locations.size()) - 1;
}

absl::Status ProgramBuilder::AddControl(const std::string& op, const at::Tensor& condition,
                                        const std::vector<at::Tensor>& operands, std::vector<AtenProgram> blocks,
                                        const std::vector<at::Tensor>& results, const std::string& place) {
  AtenNode node;
  node.op = op;
  ASSIGN_OR_RETURN(const int id, IdOf(condition));
  std::vector<std::optional<ValueRef>> refs;
  for (const at::Tensor& operand : operands) {
    ASSIGN_OR_RETURN(const int ref, IdOf(operand));
    refs.emplace_back(ValueRef{ref});
  }
  node.args = {{"condition", ValueRef{id}, false}, {"operands", std::move(refs), false}};
  node.blocks = std::move(blocks);
  for (const at::Tensor& result : results) {
    node.results.push_back(NewValue(result));
    ids_[result.unsafeGetTensorImpl()] = node.results.back();
    alive_.push_back(result);
  }
  node.debug_id = AddLocation(op, place);
  program_.nodes.push_back(std::move(node));
  return absl::OkStatus();
}

absl::Status ProgramBuilder::AddOutput(const c10::IValue& value) {
  if (value.isTensor() || value.isNone()) {
    OutputSpec output;
    if (value.isTensor() && value.toTensor().defined()) {
      ASSIGN_OR_RETURN(output.value, IdOf(value.toTensor()));
    }
    program_.outputs.push_back(output);
    return absl::OkStatus();
  }
  if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) RETURN_IF_ERROR(AddOutput(item));
    return absl::OkStatus();
  }
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) RETURN_IF_ERROR(AddOutput(item));
    return absl::OkStatus();
  }
  if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) RETURN_IF_ERROR(AddOutput(item.value()));
    return absl::OkStatus();
  }
  return Unsupported(absl::StrCat("forward returns a ", value.tagKind(), ", which is no tensor"));
}

}  // namespace preheat::capture
