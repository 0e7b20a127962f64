#include <memory>

#include "absl/strings/str_cat.h"
#include "client/compilectl/command.h"
#include "client/compilectl/model.h"
#include "client/compilectl/table.h"
#include "compiler/support/status_macros.h"

namespace preheat::cli {
namespace {

absl::StatusOr<Outcome> WhyMiss(Context& context, const ModelFlags& flags) {
  ASSIGN_OR_RETURN(ModelProgram program, LoadOneProgram(flags));
  ASSIGN_OR_RETURN(RequestOptions options, MakeRequestOptions(flags, program, v1::BACKGROUND));
  options.extern_allowed = true;
  ASSIGN_OR_RETURN(v1::WhyMissReply reply,
                   context.client().WhyMiss(context.client().MakeRequest(program.source, options)));
  Json differences = Json::array();
  Table table({{.header = "field"}, {.header = "wanted", .shrinks = true}, {.header = "stored", .shrinks = true}});
  for (const v1::KeyDifference& item : reply.differences()) {
    differences.push_back({{"field", item.field()}, {"wanted", item.wanted()}, {"stored", item.stored()}});
    table.Add({item.field(), item.wanted(), item.stored()});
  }
  Outcome outcome;
  outcome.document = {{"key", reply.key()},
                      {"hit", reply.hit()},
                      {"nearest_key", reply.nearest_key().empty() ? Json(nullptr) : Json(reply.nearest_key())},
                      {"differences", differences}};
  if (reply.hit())
    outcome.text = absl::StrCat(reply.key(), "\nis stored: no miss\n");
  else if (reply.nearest_key().empty())
    outcome.text = absl::StrCat(reply.key(), "\nis not stored, and nothing like it\n");
  else
    outcome.text =
        absl::StrCat(reply.key(), "\nis not stored; the nearest is\n", reply.nearest_key(), "\n\n", table.Render());
  return outcome;
}

}  // namespace

Command AddWhyMiss(CLI::App& root) {
  CLI::App* app = root.add_subcommand("why-miss", "the nearest stored key and the fields that differ");
  auto flags = std::make_shared<ModelFlags>();
  AddModelFlags(*app, *flags, "MODEL");
  return {app, [flags](Context& context) { return WhyMiss(context, *flags); }};
}

}  // namespace preheat::cli
