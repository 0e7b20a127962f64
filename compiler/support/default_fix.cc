#include "compiler/support/default_fix.h"

namespace preheat {
namespace {

struct Fix {
  absl::string_view kind, fix;
};

// A bug of ours, and what makes it findable.
constexpr absl::string_view kReport =
    "a bug: report it with the request's id and the program (PREHEAT_RECORD keeps it)";
constexpr absl::string_view kExportAgain = "write the file again with torch.export.save or preheat.export";
constexpr absl::string_view kSeeBuckets = "deploy/examples/buckets.yaml shows the form";

// tests/python/test_error_fixes.py finds kinds that need a row.
constexpr Fix kFixes[] = {
    // Statuses that come from a library, by their code.
    {"aborted", "ask again"},
    {"already_exists", "remove the old one first, or give another name"},
    {"data_loss", "remove the artifact with `compilectl rm`: it is compiled anew"},
    {"deadline_exceeded", "ask again with a longer deadline"},
    {"failed_precondition", "give client and server versions that are at most one apart"},
    {"internal", kReport},
    {"not_found", "see that the name is right"},
    {"out_of_range", "give a smaller value"},
    {"permission_denied", "ask whoever runs the server for a token that may"},
    {"resource_exhausted", "ask again a moment later, or with a smaller request"},
    {"unauthenticated", "give a token: --token-file or PREHEAT_TOKEN_FILE"},
    {"unavailable", "see that preheatd runs there and ask again"},
    {"unimplemented", "give client and server versions that are at most one apart"},
    {"unknown", kReport},
    // Requests.
    {"cancelled", "ask again if the result is still wanted"},
    {"invalid_request", "update the client: ours never sends this"},
    {"not_a_digest", "digests are in manifests: `compilectl --json show KEY` prints them"},
    // Workers.
    {"bad_registration", "start workers through preheatd, of the same build"},
    {"too_many_kernels", "start workers through preheatd, of the same build"},
    {"incomplete_artifact", "compile again; if it stays, workers and preheatd are of different builds"},
    {"invalid_config", "`preheatd --help` lists the settings, deploy/preheatd.yaml explains them"},
    {"server_failed", "its log is preheatd.log in the data folder"},
    // Programs and files.
    {"archive_too_large", kExportAgain},
    {"malformed_archive", kExportAgain},
    {"malformed_input", "describe each input once: --input x=f32[8,128]"},
    {"malformed_torch_script",
     "load the file with torch.jit.load and call it with such inputs: torch says the same there"},
    {"unsupported_torch_script", "save the module with torch.export.save or preheat.export instead"},
    {"malformed_program", "make the program with preheat.export or torch.compile of this version"},
    {"invalid_ir", "tests/ir/every_op.hir shows how every operator is written"},
    {"no_such_file", "see that the path is right"},
    {"no_such_weight", kExportAgain},
    {"program_too_large", "pass large constants as inputs: a program is sent without weights"},
    {"unreadable_file", "see that the path is right and may be read"},
    {"size_overflow", "give smaller sizes: a tensor has at most 2^48 elements"},
    {"negative_size", "give sizes of 0 or more"},
    {"conflicting_dimension", "give each dimension one value; those that others are derived from, not these"},
    // buckets.yaml.
    {"duplicate_field", "keep one of the two"},
    {"malformed_yaml", kSeeBuckets},
    {"no_models", kSeeBuckets},
    {"wrong_type", kSeeBuckets},
    {"too_many_buckets", "split the file: up to 4096 buckets in each"},
    // Tensors.
    {"dtype_mismatch", "give the dtype that the program declares: `compilectl show KEY` prints its inputs"},
    {"shape_mismatch", "give the sizes that the program declares: `compilectl show KEY` prints its inputs"},
    {"unsupported_device", "copy the tensor to the device that the artifact is for"},
    {"unsupported_dtype", "convert the tensor to the dtype that the program declares"},
    {"unknown_input", "`compilectl show KEY` prints the names of the inputs"},
    {"unbound_symbol", "give the dimension a value: --dim NAME=N"},
    {"not_kept", "compile it again: this server keeps all parts of what it compiles now"},
    // torch and libraries.
    {"extern_failed", "run the operator in eager mode with the same inputs: torch refuses them there too"},
    {"malformed_call", kReport},
    {"result_mismatch", kReport},
    {"torch_failed", "run the model in eager mode: the message is torch's"},
    {"reference_failed", "the artifact is served unverified; run the operator in eager mode for torch's message"},
    {"unknown_operator", "give client and worker the same version of torch"},
    {"no_float64_form", "the artifact is served unverified: nothing is to be done"},
    {"bad_record", "nothing is lost: what cannot be read is measured again"},
    {"bad_schedule", "nothing is lost: what cannot be read is measured again"},
    {"cudnn_error", "see that driver and CUDA libraries fit together; `nvidia-smi` names the driver"},
    {"cublaslt_error", "see that driver and CUDA libraries fit together; `nvidia-smi` names the driver"},
};

}  // namespace

absl::string_view DefaultFix(absl::string_view kind) {
  for (const Fix& row : kFixes) {
    if (row.kind == kind) return row.fix;
  }
  return "";
}

}  // namespace preheat
