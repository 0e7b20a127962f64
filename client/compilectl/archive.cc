#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "client/compilectl/table.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

struct Flags {
  std::string file;
  std::vector<std::string> keys;
};

// A line each time that many more bytes have gone by: an archive may take minutes.
constexpr int64_t kTellEvery = int64_t{64} << 20;

Client::BytesFn Tell(Context& context, const char* what) {
  auto told = std::make_shared<int64_t>(0);
  return [&context, what, told](int64_t bytes) {
    if (bytes < *told) *told = 0;  // another attempt
    if (bytes - *told < kTellEvery) return;
    *told = bytes;
    context.progress().Note(absl::StrCat(what, " ", HumanBytes(bytes)));
  };
}

absl::StatusOr<Outcome> Export(Context& context, const Flags& flags) {
  std::vector<std::string> keys;
  for (const std::string& prefix : flags.keys) {
    ASSIGN_OR_RETURN(std::string key, ResolveKey(context, prefix));
    keys.push_back(std::move(key));
  }
  ASSIGN_OR_RETURN(int64_t bytes, context.client().Export(keys, flags.file, Tell(context, "exported")));
  return Outcome{{{"file", flags.file}, {"bytes", bytes}},
                 absl::StrCat("wrote ", HumanBytes(bytes), " to ", flags.file, "\n")};
}

absl::StatusOr<Outcome> Import(Context& context, const Flags& flags) {
  ASSIGN_OR_RETURN(v1::ImportReply reply, context.client().Import(flags.file, Tell(context, "sent")));
  return Outcome{
      {{"file", flags.file}, {"entries", reply.entries()}, {"blobs", reply.blobs()}},
      absl::StrCat("imported ", reply.entries(), " generations and ", reply.blobs(), " blobs that were not there\n")};
}

}  // namespace

Command AddExport(CLI::App& root) {
  CLI::App* app = root.add_subcommand("export", "write artifacts and their blobs to one file");
  auto flags = std::make_shared<Flags>();
  app->add_option("FILE", flags->file, "the archive to write")->required();
  app->add_option("KEY", flags->keys, "keys, or their first digits (default: all)");
  return {app, [flags](Context& context) { return Export(context, *flags); }};
}

Command AddImport(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("import", "add the artifacts of an exported file; import only files that you trust");
  auto flags = std::make_shared<Flags>();
  app->add_option("FILE", flags->file, "an archive that export has written")->required();
  return {app, [flags](Context& context) { return Import(context, *flags); }};
}

}  // namespace preheat::cli
