/* The C ABI of libpreheat_runtime: loads an artifact, binds frozen inputs, runs.
 *
 * No gRPC, no Protobuf, no torch behind it. Strings are UTF-8 and end with a zero. Every function that can fail
 * returns a preheat_status, null when all went well, which the caller frees. Unless said otherwise a function
 * may be called from several threads at once.
 *
 * Ownership: executable and session are reference counted by create and release; a session keeps its executable.
 * Tensors are borrowed for the call (frozen inputs: until the session is released or refreshed with others).
 */
#ifndef PREHEAT_KERNELS_RUNTIME_PREHEAT_RUNTIME_H_
#define PREHEAT_KERNELS_RUNTIME_PREHEAT_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PREHEAT_EXPORT __attribute__((visibility("default")))

/* Raised when a signature or struct below changes in a way that old callers would misread. */
#define PREHEAT_RUNTIME_ABI 1
PREHEAT_EXPORT uint32_t preheat_runtime_abi(void);
PREHEAT_EXPORT uint32_t preheat_plan_version_min(void);
PREHEAT_EXPORT uint32_t preheat_plan_version_max(void);
/* The canonical target of this machine's CPU: "cpu:x86-64-v4+avx512_bf16". */
PREHEAT_EXPORT const char* preheat_host_target(void);

/* --- Errors --- */
typedef struct preheat_status preheat_status;
PREHEAT_EXPORT const char* preheat_status_code(const preheat_status*);    /* "INVALID_ARGUMENT" */
PREHEAT_EXPORT const char* preheat_status_kind(const preheat_status*);    /* "layout_mismatch" */
PREHEAT_EXPORT const char* preheat_status_message(const preheat_status*); /* what is wrong */
PREHEAT_EXPORT const char* preheat_status_where(const preheat_status*);   /* "input 3"; may be "" */
PREHEAT_EXPORT const char* preheat_status_fix(const preheat_status*);     /* what to do; may be "" */
PREHEAT_EXPORT void preheat_status_free(preheat_status*);
/* For extern handlers: a status of one's own. */
PREHEAT_EXPORT preheat_status* preheat_status_new(const char* code, const char* kind, const char* message);

/* --- Tensors: DLPack's meaning (strides in elements, never null here; data is the first element). --- */
typedef enum { PREHEAT_CPU = 0, PREHEAT_CUDA = 1 } preheat_device_type;
typedef struct {
  void* data;    /* may be null when there is no element */
  int32_t dtype; /* numbers of compiler/ir/dtype.h */
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides;
  int32_t device_type;
  int32_t device_index;
} preheat_tensor;

/* --- Extern calls: operators without a native form, run by the caller's dispatcher. --- */
typedef struct {
  const char* op;   /* "aten.sort.stable" */
  const char* call; /* arguments as JSON, sizes already numbers */
  const preheat_tensor* operands;
  size_t num_operands;
  const preheat_tensor* results; /* memory to write, of the declared shape and strides */
  size_t num_results;
  int64_t* defined; /* values of the symbols that the call defines */
  size_t num_defined;
  void* stream;
} preheat_extern_call;
/* Null on success. Called on the thread that calls run, never two at once for one session's run. */
typedef preheat_status* (*preheat_extern_handler)(void* context, const preheat_extern_call* call);

/* --- GPUs: what a process that has torch offers to runs of its own, so that both share memory and launches. --- */
typedef struct {
  void* context;
  /* Workspace for runs on a stream: null when there is not enough. Given back for later use on the same stream. */
  void* (*allocate)(void* context, int64_t bytes, int32_t device, void* stream);
  void (*free)(void* context, void* memory);
  /* Between the two, on one thread, extern calls work on `stream`, which is being captured, and take memory that stays
   * with the recording. begin_capture: 0 when that is so. Either both or none. */
  int32_t (*begin_capture)(void* context, int32_t device, void* stream);
  void (*end_capture)(void* context, int32_t device);
} preheat_gpu_host;
/* For the whole process; functions that are null are done without. Null: none. */
PREHEAT_EXPORT void preheat_set_gpu_host(const preheat_gpu_host* host);
/* Whether float32 convolutions on a GPU may round their operands to TF32 (torch.backends.cudnn.allow_tf32; at first
 * they may). For what is bound from now on. */
PREHEAT_EXPORT void preheat_allow_tf32_convolutions(int32_t allow);

/* --- Executable: immutable, shared by sessions. --- */
typedef struct preheat_executable preheat_executable;
typedef struct {
  const char* digest; /* 64 hexadecimal digits: checked against the bytes */
  const void* data;
  size_t size;
} preheat_blob;
typedef struct {
  const char*
      cache_dir; /* where code is put as digest-named files before it is loaded; null: a private temporary folder */
  int32_t num_threads; /* 0: OpenMP's own choice at each run */
} preheat_load_options;
/* `plan` and every code blob it names. DATA_LOSS "corrupt_artifact", FAILED_PRECONDITION "incompatible_plan" (both
 * versions named), "unsupported_cpu" (the features that this CPU lacks), "noexec_cache_dir". */
PREHEAT_EXPORT preheat_status* preheat_executable_load(const void* plan, size_t plan_size, const preheat_blob* blobs,
                                                       size_t num_blobs, const preheat_load_options* options,
                                                       preheat_executable** out);
PREHEAT_EXPORT void preheat_executable_release(preheat_executable*);

typedef struct {
  int32_t kind; /* InputKind of plan.fbs */
  int32_t dtype;
  int32_t rank;
  int32_t frozen;
  int32_t is_size; /* pass its value in sizes[0] of a rank-1 tensor without data */
  int32_t mutated; /* run writes into it */
} preheat_input_info;
typedef struct {
  int32_t dtype;
  int32_t rank;
  int32_t mutates;       /* >= 0: no tensor is passed for it */
  int32_t aliases_input; /* -1: none */
} preheat_output_info;
PREHEAT_EXPORT size_t preheat_num_inputs(const preheat_executable*);
PREHEAT_EXPORT size_t preheat_num_outputs(const preheat_executable*);
PREHEAT_EXPORT preheat_input_info preheat_input(const preheat_executable*, size_t index);
PREHEAT_EXPORT preheat_output_info preheat_output(const preheat_executable*, size_t index);
PREHEAT_EXPORT size_t preheat_num_symbols(const preheat_executable*);
PREHEAT_EXPORT const char* preheat_symbol_name(const preheat_executable*, size_t index);
/* Values of the symbols that these inputs bind, checked against types, strides, alignment and guards: INVALID_ARGUMENT
 * "layout_mismatch", "dtype_mismatch", "shape_mismatch", OUT_OF_RANGE "size_out_of_range"; each names the input. */
PREHEAT_EXPORT preheat_status* preheat_bind_symbols(const preheat_executable*, const preheat_tensor* inputs,
                                                    size_t num_inputs, int64_t* symbols);
/* Sizes and strides of an input or output under a binding; arrays of its rank. */
PREHEAT_EXPORT void preheat_input_shape(const preheat_executable*, const int64_t* symbols, size_t index, int64_t* sizes,
                                        int64_t* strides);
PREHEAT_EXPORT void preheat_output_shape(const preheat_executable*, const int64_t* symbols, size_t index,
                                         int64_t* sizes, int64_t* strides);
/* Bytes of arena that one run needs under a binding. */
PREHEAT_EXPORT int64_t preheat_arena_bytes(const preheat_executable*, const int64_t* symbols);

/* --- Session: an executable with its frozen inputs, packed weights and arenas. --- */
typedef struct preheat_session preheat_session;
typedef struct {
  const preheat_tensor* frozen; /* the frozen inputs, in input order; none when the plan has none */
  size_t num_frozen;
  int32_t device_index;
  preheat_extern_handler extern_handler; /* null: plans with extern steps are refused: "extern_needs_torch" */
  void* extern_context;
} preheat_bind_options;
/* Runs the prologue. */
PREHEAT_EXPORT preheat_status* preheat_bind(preheat_executable*, const preheat_bind_options*, preheat_session** out);
PREHEAT_EXPORT void preheat_session_release(preheat_session*);
/* Frozen inputs have changed their contents, or (frozen not null) their tensors. Not concurrent with runs. */
PREHEAT_EXPORT preheat_status* preheat_session_refresh(preheat_session*, const preheat_tensor* frozen,
                                                       size_t num_frozen);

/* Runs once. `inputs`: every input that is not frozen, in order. `outputs`: memory for every output that mutates
 * nothing, in order. Everything is checked as in bind_symbols. Several threads may run one session at once: each run
 * takes an arena of its own. `stream`: null on a CPU. */
PREHEAT_EXPORT preheat_status* preheat_session_run(preheat_session*, const preheat_tensor* inputs, size_t num_inputs,
                                                   const preheat_tensor* outputs, size_t num_outputs, void* stream);
/* The same without checks, for callers that have compared types before (a front end behind guards): addresses
 * only, and the symbols' values. `arena`: memory of at least arena_bytes, 64-byte aligned, or null for the session's
 * own. */
PREHEAT_EXPORT preheat_status* preheat_session_run_raw(preheat_session*, const int64_t* symbols, void* const* inputs,
                                                       void* const* outputs, void* arena, void* stream);

/* What the last run took, step by step: filled only after preheat_session_profile(session, 1). */
typedef struct {
  const char* name; /* the kernel's, "matmul by onednn", "extern aten.sort" */
  double seconds;
} preheat_step_time;
PREHEAT_EXPORT void preheat_session_profile(preheat_session*, int32_t on);
PREHEAT_EXPORT size_t preheat_session_step_times(preheat_session*, preheat_step_time* times, size_t capacity);
/* What a library has said of the algorithm that step `step` of the last run took, for LibraryStep.algorithm of
 * plan.fbs: up to `capacity` bytes of it, and how many there are. 0: no library call, or nothing to choose. Not
 * concurrent with runs. */
PREHEAT_EXPORT size_t preheat_session_algorithm(preheat_session*, size_t step, void* bytes, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif /* PREHEAT_KERNELS_RUNTIME_PREHEAT_RUNTIME_H_ */
