#ifndef PREHEAT_KERNELS_LIBRARY_LIBRARY_CALL_H_
#define PREHEAT_KERNELS_LIBRARY_LIBRARY_CALL_H_

#include <stddef.h>
#include <stdint.h>

// A library call with its sizes known, and the C interface of a provider in a shared object of its own (oneDNN: its
// symbols and torch's must not meet). Plain C, so that runtime and plugin agree on nothing but this file.

#ifdef __cplusplus
extern "C" {
#endif

// Numbers of LibraryOp and EpilogueOp in compiler/artifact/plan.fbs.
enum {
  PREHEAT_LIB_MATMUL = 0,
  PREHEAT_LIB_CONV = 1,
  PREHEAT_LIB_CONV_GRAD_INPUT = 2,
  PREHEAT_LIB_CONV_GRAD_WEIGHT = 3,
  PREHEAT_LIB_ATTENTION = 4,  // attention.h; never given to a plugin, and neither is its gradient
  PREHEAT_LIB_ATTENTION_GRAD = 5
};
enum {
  PREHEAT_LIB_BIAS = 0,
  PREHEAT_LIB_RESIDUAL = 1,
  PREHEAT_LIB_RELU = 2,
  PREHEAT_LIB_GELU = 3,
  PREHEAT_LIB_GELU_TANH = 4,
  PREHEAT_LIB_SILU = 5,
  PREHEAT_LIB_TANH = 6,
  PREHEAT_LIB_SIGMOID = 7,
  // Of attention only: attention.h.
  PREHEAT_LIB_MASK = 8,
  PREHEAT_LIB_CAUSAL = 9,
  PREHEAT_LIB_SOFTMAX = 10,
  PREHEAT_LIB_SAFE_SOFTMAX = 11,
  PREHEAT_LIB_VALUES = 12,
  PREHEAT_LIB_GRADIENT = 13,
  PREHEAT_LIB_OUTPUT = 14,
  PREHEAT_LIB_LOG_SUMS = 15
};

// Sizes and strides in elements; a stride may be 0 in operands (broadcast), never in results.
typedef struct {
  int32_t dtype;  // plan.fbs DType
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides;
} preheat_lib_tensor;

typedef struct {
  int32_t op;
  preheat_lib_tensor operand;  // of bias and residual; rank 0 otherwise
} preheat_lib_epilogue;

// Convolutions here are never `transposed`: such a call is the gradient of the plain one (NormalizeCall of call.h).
// ConvGradInput: operands grad, w, result shaped like x. ConvGradWeight: grad, x, result shaped like w.
typedef struct {
  int32_t op;
  preheat_lib_tensor operands[2];
  preheat_lib_tensor result;
  int32_t spatial;  // spatial dimensions: rank - 2; 0 for matmul
  const int64_t* stride;
  const int64_t* padding;
  const int64_t* dilation;
  int64_t groups;
  const preheat_lib_epilogue* epilogue;
  int32_t num_epilogue;
  int32_t frozen[2];  // the operand's contents stay: it may be packed once
} preheat_lib_call;

// Addresses of first elements. `scratch`: scratch_bytes, aligned to 64, contents undefined.
typedef struct {
  const void* operands[2];
  const void* packed[2];  // what `pack` wrote for that operand, or null where it has no pack key
  void* result;
  const void* const* epilogue;  // one an epilogue; null where it has no operand
  void* scratch;
  void* stream;               // on a GPU: where the call is enqueued
  void* const* more_results;  // of attention and its gradient
} preheat_lib_addresses;

typedef struct preheat_lib_prepared preheat_lib_prepared;

// A provider. Functions give 0 when all went well, and otherwise leave a reason in `message` (of `capacity` bytes,
// ended by zero). Every function may be called from several threads at once; a prepared call may run several times at
// once.
#define PREHEAT_PROVIDER_ABI 1
typedef struct {
  uint32_t abi;
  const char* name;
  // Makes a call ready; its structs are copied. Not 0: the provider declines this call.
  int (*prepare)(const preheat_lib_call* call, preheat_lib_prepared** out, char* message, size_t capacity);
  void (*release)(preheat_lib_prepared* prepared);
  int64_t (*scratch_bytes)(const preheat_lib_prepared* prepared);
  // Names the layout in which this call wants a frozen operand: equal keys, interchangeable bytes. "": not packed.
  const char* (*pack_key)(const preheat_lib_prepared* prepared, int operand);
  int64_t (*packed_bytes)(const preheat_lib_prepared* prepared, int operand);
  int (*pack)(const preheat_lib_prepared* prepared, int operand, const void* from, void* to, char* message,
              size_t capacity);
  int (*run)(const preheat_lib_prepared* prepared, const preheat_lib_addresses* addresses, char* message,
             size_t capacity);
} preheat_provider_api;

// The one symbol that a plugin exports.
typedef const preheat_provider_api* (*preheat_provider_entry)(void);
#define PREHEAT_PROVIDER_ENTRY "preheat_provider"

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PREHEAT_KERNELS_LIBRARY_LIBRARY_CALL_H_
