#include "client/cpp/dlpack.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/support/error.h"

namespace preheat {
namespace {

// Debian's header is of DLPack 0.6; the number of bool came with 0.8.
constexpr uint8_t kDlpackBool = 6;

// Numbers of compiler/ir/dtype.h.
std::optional<int32_t> DTypeFromDlpack(const DLDataType& type) {
  struct Row {
    uint8_t code, bits;
    int32_t dtype;
  };
  static constexpr Row kTable[] = {{kDlpackBool, 8, 0}, {kDLUInt, 8, 1},   {kDLInt, 8, 2},       {kDLInt, 16, 3},
                                   {kDLInt, 32, 4},     {kDLInt, 64, 5},   {kDLFloat, 16, 6},    {kDLBfloat, 16, 7},
                                   {kDLFloat, 32, 8},   {kDLFloat, 64, 9}, {kDLComplex, 64, 10}, {kDLComplex, 128, 11}};
  for (const Row& row : kTable) {
    if (type.lanes == 1 && type.code == row.code && type.bits == row.bits) return row.dtype;
  }
  return std::nullopt;
}

absl::Status Unsupported(const char* kind, size_t index, const std::string& what) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = kind, .message = what, .where = absl::StrCat("tensor ", index), .fix = ""});
}

std::vector<int64_t> DenseStrides(const DLTensor& tensor) {
  std::vector<int64_t> strides(static_cast<size_t>(tensor.ndim));
  int64_t stride = 1;
  for (int i = tensor.ndim; i-- > 0;) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= tensor.shape[i] > 1 ? tensor.shape[i] : 1;
  }
  return strides;
}

}  // namespace

absl::StatusOr<RuntimeTensors> RuntimeTensors::From(absl::Span<const DLTensor> tensors) {
  RuntimeTensors result;
  result.tensors_.reserve(tensors.size());
  for (const DLTensor& tensor : tensors) {
    const size_t index = result.tensors_.size();
    const std::optional<int32_t> dtype = DTypeFromDlpack(tensor.dtype);
    if (!dtype) {
      return Unsupported("unsupported_dtype", index,
                         absl::StrCat("no element type has DLPack code ", int{tensor.dtype.code}, ", ",
                                      int{tensor.dtype.bits}, " bits, ", int{tensor.dtype.lanes}, " lanes"));
    }
    if (tensor.device.device_type != kDLCPU && tensor.device.device_type != kDLCUDA) {
      return Unsupported(
          "unsupported_device", index,
          absl::StrCat("DLPack device type ", static_cast<int>(tensor.device.device_type), " is neither CPU nor CUDA"));
    }
    const int64_t* strides = tensor.strides;
    if (strides == nullptr) strides = result.strides_.emplace_back(DenseStrides(tensor)).data();
    result.tensors_.push_back(
        {.data = tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset,
         .dtype = *dtype,
         .rank = tensor.ndim,
         .sizes = tensor.shape,
         .strides = strides,
         .device_type = tensor.device.device_type == kDLCPU ? PREHEAT_CPU : PREHEAT_CUDA,
         .device_index = tensor.device.device_id});
  }
  return result;
}

}  // namespace preheat
