#include "client/compilectl/model_inputs.h"

#include <cstring>
#include <utility>

#include "client/compilectl/torch_library.h"
#include "compiler/capture/bind_dims.h"
#include "compiler/capture/functionalize.h"
#include "compiler/ir/graph.h"
#include "compiler/reference/inputs/inputs.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

using reference::HostTensor;

HostTensor FromArchive(const ArchiveTensor& tensor) {
  HostTensor copy = reference::MakeStrided(static_cast<ir::DType>(tensor.dtype), tensor.sizes, tensor.strides);
  if (!copy.bytes.empty()) std::memcpy(copy.bytes.data(), tensor.data(), copy.bytes.size());
  return copy;
}

// Whether the tensor can be that input: same dtype, same rank, same sizes where they are fixed.
bool Fits(const capture::AtenValue& value, const HostTensor& tensor) {
  const ir::TensorType& type = value.type.tensor;
  if (value.is_size || type.dtype != tensor.dtype || type.shape.size() != tensor.sizes.size()) return false;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (type.shape[d].is_constant() && *type.shape[d].constant() != tensor.sizes[d]) return false;
  }
  return true;
}

// All user inputs get their sample, or none does: a mixture is no sample of anything.
std::map<int, HostTensor> MatchSamples(const capture::AtenProgram& program, std::vector<HostTensor> samples) {
  std::map<int, HostTensor> matched;
  size_t next = 0;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].kind != ir::InputKind::kUser) continue;
    const capture::AtenValue& value = program.values[static_cast<size_t>(program.inputs[i].value)];
    if (next >= samples.size() || !Fits(value, samples[next])) return {};
    matched[static_cast<int>(i)] = std::move(samples[next++]);
  }
  return next == samples.size() ? matched : std::map<int, HostTensor>();
}

// Samples are a courtesy: without torch, or where they are no plain tensors, inputs are made up.
std::map<int, HostTensor> ReadSamples(const ExportArchive& archive, const capture::AtenProgram& program) {
  const absl::StatusOr<std::string> file = archive.SampleInputs();
  if (!file.ok() || file->empty()) return {};
  const absl::StatusOr<const TorchLibrary*> torch = TorchLibrary::Get();
  if (!torch.ok()) return {};
  absl::StatusOr<std::vector<HostTensor>> tensors = (*torch)->ReadTensors(*file);
  if (!tensors.ok()) return {};
  return MatchSamples(program, *std::move(tensors));
}

}  // namespace

absl::StatusOr<OwnInputs> ReadOwnInputs(const ModelProgram& program, const std::map<std::string, int64_t>& dims) {
  OwnInputs own;
  if (program.archive == nullptr) return own;
  capture::AtenProgram bound = program.program;
  RETURN_IF_ERROR(capture::BindDims(bound, dims));
  for (size_t i = 0; i < bound.inputs.size(); ++i) {
    if (bound.inputs[i].kind == ir::InputKind::kUser) continue;
    ASSIGN_OR_RETURN(ArchiveTensor weight, program.archive->Weight(bound.debug.input_names[i]));
    own.tensors[static_cast<int>(i)] = FromArchive(weight);
  }
  std::map<int, HostTensor> samples = ReadSamples(*program.archive, bound);
  std::map<int, HostTensor> with_samples = own.tensors;
  with_samples.insert(samples.begin(), samples.end());
  if (auto symbols = reference::CompleteSymbols(bound, {}, with_samples); !samples.empty() && symbols.ok()) {
    own.samples = true;
    own.tensors = std::move(with_samples);
    own.symbols = *std::move(symbols);
    return own;
  }
  ASSIGN_OR_RETURN(own.symbols, reference::CompleteSymbols(bound, {}, own.tensors));
  return own;
}

absl::StatusOr<capture::AtenProgram> Prepare(const ModelProgram& program, const std::map<std::string, int64_t>& dims) {
  capture::AtenProgram prepared = program.program;
  RETURN_IF_ERROR(capture::BindDims(prepared, dims));
  RETURN_IF_ERROR(capture::Functionalize(prepared));
  return prepared;
}

absl::StatusOr<std::vector<HostTensor>> MakeInputs(const capture::AtenProgram& program, const OwnInputs& own) {
  reference::InputOptions options;
  options.given = own.tensors;
  ASSIGN_OR_RETURN(options.symbols, reference::CompleteSymbols(program, own.symbols, own.tensors));
  return reference::GenerateInputs(program, options);
}

HostTensor Dense(const HostTensor& tensor) {
  HostTensor dense = reference::MakeTensor(tensor.dtype, tensor.sizes);
  reference::CopyElements(tensor, dense);
  return dense;
}

}  // namespace preheat::cli
