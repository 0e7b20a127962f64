#ifndef PREHEAT_CLIENT_COMPILECTL_MODEL_H_
#define PREHEAT_CLIENT_COMPILECTL_MODEL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/compilectl/command.h"
#include "client/cpp/export_archive.h"
#include "compiler/capture/aten_program.h"

namespace preheat::cli {

// One program of a model file, read and imported here already: what is wrong with it is said before a server is
// asked, and its dimensions are known.
struct ModelProgram {
  std::string name;  // "bert"; in a bundle "train/backward"
  std::string kind;  // "inference", "forward", "backward"
  v1::Source source;
  capture::AtenProgram program;            // as imported: not functional yet, no dimension bound
  std::shared_ptr<ExportArchive> archive;  // its weights; null for programs of a bundle and of TorchScript

  // TorchScript is read by the worker alone: no `program` here, and its dimensions are what its inputs name.
  bool imported() const { return !source.has_torch_script(); }
};

// .pt2 archives, .preheat bundles, and .pt files of TorchScript, which need `inputs` ("x=f32[batch,128]") to know their
// shapes. INVALID_ARGUMENT "no_such_file", "unsupported_source" for other files, "missing_input", or what the importers
// say.
absl::StatusOr<std::vector<ModelProgram>> LoadModel(const std::string& path,
                                                    const std::vector<std::string>& inputs = {});

// What `MODEL` on a command line takes beside it.
struct ModelFlags {
  std::string model;                // a path, or a KEY where the subcommand takes one
  std::vector<std::string> dims;    // "seq=128"
  std::vector<std::string> inputs;  // "x=f32[8,128]"
  std::string program;              // which of a bundle
  std::string target = "cpu";
  std::string mode;  // "", "fast", "tuned", "background"
  std::vector<std::string> exclude;
  bool freeze = false;
};
void AddModelFlags(CLI::App& app, ModelFlags& flags, const std::string& what);

// The flags as a request for that program; every mistake in them is INVALID_ARGUMENT. `otherwise`: the mode when
// none is named.
absl::StatusOr<RequestOptions> MakeRequestOptions(const ModelFlags& flags, const ModelProgram& program,
                                                  v1::Mode otherwise);

// "fast" and so on; "" is `otherwise`.
absl::StatusOr<v1::Mode> ParseMode(const std::string& text, v1::Mode otherwise);

// The one program of a file, or the one that flags.program names.
absl::StatusOr<ModelProgram> LoadOneProgram(const ModelFlags& flags);

// True when the argument can only be a key or the beginning of one: hexadecimal digits, and no such file.
bool IsKey(const std::string& argument);
// The whole key. NOT_FOUND "unknown_key", INVALID_ARGUMENT "ambiguous_key".
absl::StatusOr<std::string> ResolveKey(Context& context, const std::string& prefix);
// The newest manifest of a key or the beginning of one.
absl::StatusOr<v1::Manifest> FindManifest(Context& context, const std::string& prefix);

// " (did you mean \"seq\"?)" for the nearest of the names if one is near, "" otherwise.
std::string DidYouMean(const std::string& wrong, const std::vector<std::string>& names);

}  // namespace preheat::cli

#endif  // PREHEAT_CLIENT_COMPILECTL_MODEL_H_
