/* The C ABI of libpreheat_torch: torch's dispatcher for those who do not link torch. Open it with
 * dlopen(RTLD_NOW | RTLD_LOCAL); when torch's own libraries are not found, dlopen says so and there is no eager.
 *
 * Errors are strings the caller frees with preheat_torch_free; null means success. Safe from several threads.
 */
#ifndef PREHEAT_CLIENT_TORCH_PREHEAT_TORCH_H_
#define PREHEAT_CLIENT_TORCH_PREHEAT_TORCH_H_

#include <stddef.h>
#include <stdint.h>

#include "kernels/runtime/preheat_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PREHEAT_TORCH_ABI 2
PREHEAT_EXPORT uint32_t preheat_torch_abi(void);
PREHEAT_EXPORT const char* preheat_torch_version(void); /* "2.11.0" */
PREHEAT_EXPORT void preheat_torch_free(void* memory);

/* Extern calls of the runtime (bind options: extern_handler): wraps operands without copying them, calls the
 * operator boxed and copies its results. `context` is unused: pass null. */
PREHEAT_EXPORT preheat_status* preheat_torch_extern(void* context, const preheat_extern_call* call);

/* --- A run as Python makes it: checks, results' memory and run in one call. --- */
typedef struct {
  int64_t argument; /* in the list; -1: none, `address` is passed as it stands */
  int32_t dtype;    /* as preheat_tensor's */
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides;
  void* address;
} preheat_torch_input;
typedef struct {
  int32_t dtype;
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides;
} preheat_torch_output;
/* A frozen input, as the session knows it: where it lies, torch's counter of its writes (-1: it has none), and a few of
 * its elements, `step` bytes apart, as they were then. */
typedef struct {
  int64_t argument;
  const void* address;
  int64_t version;
  int64_t num_samples;
  int64_t sample_bytes;
  int64_t step;
  const void* samples;
} preheat_torch_watched;
typedef struct {
  preheat_session* session;
  const int64_t* symbols;
  const preheat_torch_input* inputs; /* those that are not frozen, in order */
  size_t num_inputs;
  const preheat_torch_watched* watched;
  size_t num_watched;
  const preheat_torch_output* outputs;
  size_t num_outputs;
  int32_t device_type;
  int32_t device_index;
} preheat_torch_step;
/* `arguments`: a Python list. A new list of the outputs, made by torch; Python's None when an argument is not as the
 * step says or a frozen one has changed (nothing has run then), or when the run has failed: preheat_torch_take_status
 * says which. Call it holding the GIL, which others have while the run is enqueued. */
PREHEAT_EXPORT void* preheat_torch_call(const preheat_torch_step* step, void* arguments);
/* --- A training step: a forward graph whose backward graph torch's autograd runs, without Python in between. --- */
enum { PREHEAT_TORCH_NONE = 0, PREHEAT_TORCH_OUTPUT = 1, PREHEAT_TORCH_ARGUMENT = 2 };
typedef struct {
  int32_t kind;  /* of what it is, or is a view of */
  int32_t view;  /* whether it is a view, of these sizes and strides */
  int64_t index; /* of the program's output, or of the argument */
  int64_t rank;
  const int64_t* sizes;
  const int64_t* strides;
  int64_t offset; /* after the first element of what it views */
} preheat_torch_result;
typedef struct {
  const preheat_torch_step* forward;
  const preheat_torch_step* backward;  /* its arguments: what is saved, then the gradients of results that have one */
  const preheat_torch_result* results; /* of the forward graph: updates of arguments, what is returned, what is saved */
  const int64_t* updated; /* arguments that the first results are written to; none of them has a gradient */
  size_t num_updated;
  size_t num_returned;
  size_t num_saved;
  size_t num_checked;                    /* the first of the saved ones: torch notices when somebody writes to them */
  const int32_t* differentiable;         /* one a returned result */
  const preheat_torch_result* gradients; /* of the backward graph, one an argument of the forward graph */
  size_t num_arguments;
  void* owner; /* a Python object that keeps all of this alive: results hold a reference */
} preheat_torch_training;
/* As preheat_torch_call: a new list of what is returned, with gradients to come; None when it must go another way. */
PREHEAT_EXPORT void* preheat_torch_train(const preheat_torch_training* training, void* arguments);

/* Of this thread's last call: null when nothing has run. The caller frees it. */
PREHEAT_EXPORT preheat_status* preheat_torch_take_status(void);

/* Runs a program eagerly. `program` is a preheat::capture::AtenProgram of the same build; `inputs`, one for each of
 * its inputs, are borrowed and not written; sizes are 0-d i64. Fills median and 99th percentile of `repeat` runs. */
PREHEAT_EXPORT char* preheat_torch_time(const void* program, const preheat_tensor* inputs, size_t num_inputs,
                                        int32_t repeat, double* median_ms, double* p99_ms);

/* A file of tensors that torch.save wrote: sample inputs of a .pt2 archive (data/sample_inputs/model.pt). Only
 * tensors, numbers and containers are read, no Python objects. Tensors in the order in which they stand. */
typedef struct preheat_torch_file preheat_torch_file;
PREHEAT_EXPORT char* preheat_torch_open(const void* bytes, size_t size, preheat_torch_file** out);
PREHEAT_EXPORT size_t preheat_torch_num_tensors(const preheat_torch_file*);
/* Valid until the file is closed; dense, row-major. */
PREHEAT_EXPORT preheat_tensor preheat_torch_tensor(const preheat_torch_file*, size_t index);
PREHEAT_EXPORT void preheat_torch_close(preheat_torch_file*);

#ifdef __cplusplus
}
#endif

#endif /* PREHEAT_CLIENT_TORCH_PREHEAT_TORCH_H_ */
