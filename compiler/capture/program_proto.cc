#include "compiler/capture/program_proto.h"

#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/capture/check_program.h"
#include "compiler/capture/limits.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"

namespace preheat::capture {
namespace {

using ir::DType;
using ir::Expr;

constexpr size_t kMaxExprText = 1024;

absl::Status Malformed(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "malformed_program", .message = std::string(what), .where = "", .fix = ""});
}

// --- Writing ---

v1::DType DTypeToProto(DType dtype) { return static_cast<v1::DType>(static_cast<int>(dtype) + 1); }

void TypeToProto(const AtenType& type, v1::TensorType& out) {
  out.set_dtype(DTypeToProto(type.tensor.dtype));
  for (const Expr& size : type.tensor.shape) out.add_sizes(size.ToString());
  for (const Expr& stride : type.strides) out.add_strides(stride.ToString());
  out.set_device_type(type.device_type);
  out.set_alignment(type.alignment);
}

void EnumToProto(const Enum& value, v1::Argument& out) {
  switch (value.kind) {
    case Enum::Kind::kLayout: out.set_layout(value.name); break;
    case Enum::Kind::kMemoryFormat: out.set_memory_format(value.name); break;
    case Enum::Kind::kDevice: out.set_device(value.name); break;
  }
}

struct ArgumentWriter {
  v1::Argument& out;

  void operator()(None) const { out.mutable_none(); }
  void operator()(ValueRef ref) const { out.set_tensor(ref.id); }
  void operator()(const std::vector<std::optional<ValueRef>>& list) const {
    v1::TensorList* tensors = out.mutable_tensors();
    for (const std::optional<ValueRef>& ref : list) tensors->add_values(ref ? ref->id : -1);
  }
  void operator()(const Expr& e) const { out.set_integer(e.ToString()); }
  void operator()(double v) const { out.set_number(v); }
  void operator()(bool v) const { out.set_boolean(v); }
  void operator()(const std::string& v) const { out.set_text(v); }
  void operator()(Complex v) const {
    out.mutable_complex_number()->set_re(v.re);
    out.mutable_complex_number()->set_im(v.im);
  }
  void operator()(DType v) const { out.set_dtype(DTypeToProto(v)); }
  void operator()(const Enum& v) const { EnumToProto(v, out); }
  void operator()(const std::vector<Expr>& list) const {
    v1::IntegerList* integers = out.mutable_integers();
    for (const Expr& e : list) integers->add_values(e.ToString());
  }
  void operator()(const std::vector<double>& list) const {
    v1::NumberList* numbers = out.mutable_numbers();
    for (double v : list) numbers->add_values(v);
  }
  void operator()(const std::vector<bool>& list) const {
    v1::BooleanList* booleans = out.mutable_booleans();
    for (bool v : list) booleans->add_values(v);
  }
};

v1::Input::Kind InputKindToProto(ir::InputKind kind) {
  switch (kind) {
    case ir::InputKind::kParameter: return v1::Input::PARAMETER;
    case ir::InputKind::kBuffer: return v1::Input::BUFFER;
    case ir::InputKind::kConstant: return v1::Input::CONSTANT;
    case ir::InputKind::kUser: break;
  }
  return v1::Input::USER;
}

void OutputToProto(const OutputSpec& output, v1::Output& out) {
  if (output.value >= 0) out.set_value(output.value);
  if (output.mutates >= 0) out.set_mutates_input(output.mutates);
  if (output.aliases_input >= 0) out.set_aliases_input(output.aliases_input);
  if (output.aliases_output >= 0) out.set_aliases_output(output.aliases_output);
}

void NodeToProto(const AtenNode& node, v1::Node& out) {
  out.set_op(node.op);
  for (const NamedArgument& arg : node.args) {
    v1::Argument& argument = *out.add_arguments();
    argument.set_name(arg.name);
    argument.set_keyword(arg.keyword);
    std::visit(ArgumentWriter{argument}, arg.value);
  }
  for (int result : node.results) out.add_results(result);
  out.set_result_is_list(node.result_is_list);
  if (node.debug_id >= 0) out.set_debug_id(node.debug_id);
  for (const AtenProgram& block : node.blocks) *out.add_blocks() = ToProto(block);
}

void DebugToProto(const AtenProgram& program, v1::DebugInfo& out) {
  for (const std::string& name : program.debug.value_names) out.add_value_names(name);
  for (const DebugInfo::Location& location : program.debug.locations) {
    v1::Location& to = *out.add_locations();
    to.set_op(location.op);
    to.set_name(location.name);
    to.set_stack(location.stack);
  }
  for (const std::string& name : program.debug.input_names) out.add_input_names(name);
  for (const std::string& name : program.debug.output_names) out.add_output_names(name);
  for (const auto& [symbol, name] : program.dim_names) (*out.mutable_dim_names())[symbol] = name;
}

// --- Reading ---

// Only the canonical form is read: no parentheses but those of functions, one number a product. So reading
// an expression can neither overflow nor take long.
bool IsPlainExpression(const std::string& text) {
  if (text.empty() || text.size() > kMaxExprText) return false;
  char before = '+';  // the last character that was no space
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = text[i];
    if (c == ' ') continue;
    bool in_word = std::isalnum(static_cast<unsigned char>(before)) || before == '_';
    if (c == '(' && !(in_word && std::isalpha(static_cast<unsigned char>(text[i == 0 ? 0 : i - 1])))) return false;
    if (std::isdigit(c) && before == '*') return false;
    before = text[i];
  }
  return true;
}

absl::StatusOr<Expr> ReadExpr(const std::string& text) {
  if (!IsPlainExpression(text))
    return Malformed(absl::StrCat("\"", text.substr(0, 100), "\" is not an expression in canonical form"));
  absl::StatusOr<Expr> e = Expr::Parse(text);
  if (!e.ok()) return Malformed(e.status().message());
  return e;
}

absl::StatusOr<DType> ReadDType(v1::DType dtype) {
  int number = static_cast<int>(dtype) - 1;
  if (number < 0 || number > static_cast<int>(DType::kC128)) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.kind = "unknown_dtype",
                      .message = absl::StrCat("dtype number ", static_cast<int>(dtype), " is not known"),
                      .where = "",
                      .fix = "the client may be newer than the server: update the server"});
  }
  return static_cast<DType>(number);
}

absl::StatusOr<AtenValue> ReadValue(const v1::Value& proto) {
  AtenValue value;
  if (proto.kind_case() == v1::Value::kSize) {
    value.is_size = true;
    ASSIGN_OR_RETURN(value.expr, ReadExpr(proto.size()));
    return value;
  }
  if (proto.kind_case() != v1::Value::kTensor) return Malformed("a value is neither tensor nor size");
  const v1::TensorType& type = proto.tensor();
  ASSIGN_OR_RETURN(value.type.tensor.dtype, ReadDType(type.dtype()));
  for (const std::string& size : type.sizes()) {
    ASSIGN_OR_RETURN(Expr e, ReadExpr(size));
    value.type.tensor.shape.push_back(std::move(e));
  }
  for (const std::string& stride : type.strides()) {
    ASSIGN_OR_RETURN(Expr e, ReadExpr(stride));
    value.type.strides.push_back(std::move(e));
  }
  value.type.device_type = type.device_type();
  value.type.alignment = static_cast<int>(std::min<uint32_t>(type.alignment(), 1 << 20));
  return value;
}

absl::StatusOr<int> ReadId(uint32_t id) {
  if (id > kMaxValues) return Malformed(absl::StrCat("there is no value ", id));
  return static_cast<int>(id);
}

std::vector<std::optional<ValueRef>> ReadTensors(const v1::TensorList& list) {
  std::vector<std::optional<ValueRef>> refs;
  for (int32_t id : list.values()) refs.push_back(id == -1 ? std::nullopt : std::optional<ValueRef>(ValueRef{id}));
  return refs;
}

absl::StatusOr<Argument> ReadIntegers(const v1::IntegerList& list) {
  std::vector<Expr> integers;
  for (const std::string& text : list.values()) {
    ASSIGN_OR_RETURN(Expr e, ReadExpr(text));
    integers.push_back(std::move(e));
  }
  return Argument(std::move(integers));
}

absl::StatusOr<Argument> ReadArgument(const v1::Argument& proto) {
  switch (proto.value_case()) {
    case v1::Argument::kNone: return Argument(None{});
    case v1::Argument::kTensor: {
      ASSIGN_OR_RETURN(int id, ReadId(proto.tensor()));
      return Argument(ValueRef{id});
    }
    case v1::Argument::kTensors: return Argument(ReadTensors(proto.tensors()));
    case v1::Argument::kInteger: {
      ASSIGN_OR_RETURN(Expr e, ReadExpr(proto.integer()));
      return Argument(std::move(e));
    }
    case v1::Argument::kNumber: return Argument(proto.number());
    case v1::Argument::kBoolean: return Argument(proto.boolean());
    case v1::Argument::kText: return Argument(proto.text());
    case v1::Argument::kComplexNumber:
      return Argument(Complex{proto.complex_number().re(), proto.complex_number().im()});
    case v1::Argument::kDtype: {
      ASSIGN_OR_RETURN(DType dtype, ReadDType(proto.dtype()));
      return Argument(dtype);
    }
    case v1::Argument::kLayout: return Argument(Enum{Enum::Kind::kLayout, proto.layout()});
    case v1::Argument::kMemoryFormat: return Argument(Enum{Enum::Kind::kMemoryFormat, proto.memory_format()});
    case v1::Argument::kDevice: return Argument(Enum{Enum::Kind::kDevice, proto.device()});
    case v1::Argument::kIntegers: return ReadIntegers(proto.integers());
    case v1::Argument::kNumbers:
      return Argument(std::vector<double>(proto.numbers().values().begin(), proto.numbers().values().end()));
    case v1::Argument::kBooleans:
      return Argument(std::vector<bool>(proto.booleans().values().begin(), proto.booleans().values().end()));
    case v1::Argument::VALUE_NOT_SET: break;
  }
  return Malformed(absl::StrCat("argument ", proto.name(), " has no value"));
}

absl::StatusOr<AtenProgram> ReadProgram(const v1::Program& proto);

absl::StatusOr<AtenNode> ReadNode(const v1::Node& proto) {
  AtenNode node{.op = proto.op(), .args = {}, .results = {proto.results().begin(), proto.results().end()}};
  for (const v1::Argument& argument : proto.arguments()) {
    ASSIGN_OR_RETURN(Argument value, ReadArgument(argument));
    node.args.push_back({.name = argument.name(), .value = std::move(value), .keyword = argument.keyword()});
  }
  node.result_is_list = proto.result_is_list();
  if (proto.has_debug_id()) {
    ASSIGN_OR_RETURN(node.debug_id, ReadId(proto.debug_id()));
  }
  for (const v1::Program& block : proto.blocks()) {
    ASSIGN_OR_RETURN(AtenProgram program, ReadProgram(block));
    node.blocks.push_back(std::move(program));
  }
  return node;
}

absl::StatusOr<InputSpec> ReadInput(const v1::Input& proto) {
  InputSpec input{.value = 0, .frozen = proto.frozen()};
  ASSIGN_OR_RETURN(input.value, ReadId(proto.value()));
  switch (proto.kind()) {
    case v1::Input::USER: input.kind = ir::InputKind::kUser; break;
    case v1::Input::PARAMETER: input.kind = ir::InputKind::kParameter; break;
    case v1::Input::BUFFER: input.kind = ir::InputKind::kBuffer; break;
    case v1::Input::CONSTANT: input.kind = ir::InputKind::kConstant; break;
    default: return Malformed("an input is of an unknown kind");
  }
  return input;
}

absl::StatusOr<OutputSpec> ReadOutput(const v1::Output& proto) {
  OutputSpec output;
  if (proto.has_value()) {
    ASSIGN_OR_RETURN(output.value, ReadId(proto.value()));
  }
  if (proto.has_mutates_input()) {
    output.kind = OutputSpec::Kind::kMutatesInput;
    ASSIGN_OR_RETURN(output.mutates, ReadId(proto.mutates_input()));
  }
  if (proto.has_aliases_input()) {
    ASSIGN_OR_RETURN(output.aliases_input, ReadId(proto.aliases_input()));
  }
  if (proto.has_aliases_output()) {
    ASSIGN_OR_RETURN(output.aliases_output, ReadId(proto.aliases_output()));
  }
  return output;
}

void ReadDebug(const v1::DebugInfo& proto, AtenProgram& program) {
  program.debug.value_names.assign(proto.value_names().begin(), proto.value_names().end());
  for (const v1::Location& location : proto.locations()) {
    program.debug.locations.push_back({.op = location.op(), .name = location.name(), .stack = location.stack()});
  }
  program.debug.input_names.assign(proto.input_names().begin(), proto.input_names().end());
  program.debug.output_names.assign(proto.output_names().begin(), proto.output_names().end());
  program.dim_names.insert(proto.dim_names().begin(), proto.dim_names().end());
}

absl::Status ReadBoundary(const v1::Program& proto, AtenProgram& program) {
  for (const v1::Symbol& symbol : proto.symbols()) {
    program.symbols.push_back({.name = symbol.name(), .min = symbol.min(), .max = std::nullopt});
    if (symbol.has_max()) program.symbols.back().max = symbol.max();
  }
  for (const std::string& text : proto.guards()) {
    ASSIGN_OR_RETURN(Expr guard, ReadExpr(text));
    program.guards.push_back(std::move(guard));
  }
  for (const v1::Input& input : proto.inputs()) {
    ASSIGN_OR_RETURN(InputSpec spec, ReadInput(input));
    program.inputs.push_back(spec);
  }
  for (const v1::Output& output : proto.outputs()) {
    ASSIGN_OR_RETURN(OutputSpec spec, ReadOutput(output));
    program.outputs.push_back(spec);
  }
  for (const v1::Constant& constant : proto.constants()) {
    ASSIGN_OR_RETURN(int id, ReadId(constant.value()));
    program.constants.push_back({.value = id, .data = constant.data()});
  }
  return absl::OkStatus();
}

absl::Status CheckFormat(uint32_t format) {
  if (format >= 1 && format <= kProgramFormat) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.kind = "unsupported_program_format",
       .message = absl::StrCat("the program has format ", format, "; this server reads format ", kProgramFormat),
       .where = "",
       .fix = "bring client and server to the same minor version"});
}

}  // namespace

v1::Program ToProto(const AtenProgram& program) {
  v1::Program proto;
  proto.set_format(kProgramFormat);
  for (const ir::Symbol& symbol : program.symbols) {
    v1::Symbol& out = *proto.add_symbols();
    out.set_name(symbol.name);
    out.set_min(symbol.min);
    if (symbol.max) out.set_max(*symbol.max);
  }
  for (const Expr& guard : program.guards) proto.add_guards(guard.ToString());
  for (const AtenValue& value : program.values) {
    v1::Value& out = *proto.add_values();
    if (value.is_size) {
      out.set_size(value.expr.ToString());
    } else {
      TypeToProto(value.type, *out.mutable_tensor());
    }
  }
  for (const InputSpec& input : program.inputs) {
    v1::Input& out = *proto.add_inputs();
    out.set_value(input.value);
    out.set_kind(InputKindToProto(input.kind));
    out.set_frozen(input.frozen);
  }
  for (const OutputSpec& output : program.outputs) OutputToProto(output, *proto.add_outputs());
  for (const ConstantData& constant : program.constants) {
    v1::Constant& out = *proto.add_constants();
    out.set_value(constant.value);
    out.set_data(constant.data);
  }
  for (const AtenNode& node : program.nodes) NodeToProto(node, *proto.add_nodes());
  DebugToProto(program, *proto.mutable_debug_info());
  return proto;
}

namespace {

absl::StatusOr<AtenProgram> ReadProgram(const v1::Program& proto) {
  RETURN_IF_ERROR(CheckFormat(proto.format()));
  AtenProgram program;
  if (static_cast<size_t>(proto.values_size()) > kMaxValues) return Malformed("too many values");
  for (const v1::Value& value : proto.values()) {
    ASSIGN_OR_RETURN(AtenValue v, ReadValue(value));
    program.values.push_back(std::move(v));
  }
  RETURN_IF_ERROR(ReadBoundary(proto, program));
  for (int i = 0; i < proto.nodes_size(); ++i) {
    absl::StatusOr<AtenNode> node = ReadNode(proto.nodes(i));
    if (!node.ok()) return WithWhere(node.status(), absl::StrCat("node ", i, " (", proto.nodes(i).op(), ")"));
    program.nodes.push_back(*std::move(node));
  }
  ReadDebug(proto.debug_info(), program);
  return program;
}

}  // namespace

absl::StatusOr<AtenProgram> FromProto(const v1::Program& proto) {
  ASSIGN_OR_RETURN(AtenProgram program, ReadProgram(proto));
  RETURN_IF_ERROR(CheckProgram(program));
  return program;
}

}  // namespace preheat::capture
