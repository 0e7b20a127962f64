#include "client/compilectl/report.h"

#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/cpp/rpc_status.h"
#include "compiler/ir/dtype.h"
#include "compiler/support/error.h"
#include "compiler/support/human.h"

namespace preheat::cli {
namespace {

// Compilers' messages have lines.
std::string PrintableLines(absl::string_view text) {
  return absl::StrJoin(absl::StrSplit(text, '\n'), "\n",
                       [](std::string* out, absl::string_view line) { out->append(Printable(line)); });
}

std::string DTypeText(v1::DType dtype) {
  if (dtype < v1::DTYPE_BOOL || dtype > v1::DTYPE_C128) return "unknown";
  return std::string(ir::DTypeName(static_cast<ir::DType>(dtype - 1)));
}

Json KernelObject(const v1::KernelReport& kernel) {
  Json ops = Json::array();
  for (const std::string& op : kernel.ops()) ops.push_back(op);
  return {{"name", kernel.name()},
          {"kind", kernel.kind()},
          {"ops", ops},
          {"bytes", kernel.bytes()},
          {"flops", kernel.flops()},
          {"ms", Measured(kernel.ms())},
          {"roofline", Measured(kernel.roofline())}};
}

}  // namespace

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json Measured(double value) { return value == 0 ? Json(nullptr) : Number(value); }

Json Time(int64_t unix_ms) {
  if (unix_ms == 0) return nullptr;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

Json ErrorObject(const absl::Status& status) {
  const Error error = GetError(status);
  Json object = {{"code", CodeName(status.code())},
                 {"kind", error.kind},
                 {"message", error.message},
                 {"where", error.where},
                 {"fix", error.fix}};
  if (const std::string id = RequestIdOf(status); !id.empty()) object["request_id"] = id;
  return object;
}

std::string ErrorText(const absl::Status& status) {
  const Error error = GetError(status);
  std::string text = absl::StrCat("error: ", PrintableLines(error.message), "\n");
  if (!error.where.empty()) absl::StrAppend(&text, "  where:   ", Printable(error.where), "\n");
  if (!error.fix.empty()) absl::StrAppend(&text, "  fix:     ", PrintableLines(error.fix), "\n");
  absl::StrAppend(&text, "  kind:    ", error.kind, " (", CodeName(status.code()), ")\n");
  if (const std::string id = RequestIdOf(status); !id.empty())
    absl::StrAppend(&text, "  request: ", id, " in the server's log\n");
  return text;
}

const char* ResultName(v1::Result result) {
  switch (result) {
    case v1::HIT: return "hit";
    case v1::COMPILED: return "compiled";
    case v1::COALESCED: return "coalesced";
    case v1::MISSING: return "missing";
    default: return "failed";
  }
}

const char* StateName(v1::Evidence::State state) {
  switch (state) {
    case v1::Evidence::OK: return "ok";
    case v1::Evidence::FAILED: return "failed";
    case v1::Evidence::NOT_POSSIBLE: return "not_possible";
    default: return "pending";
  }
}

int64_t TotalBytes(const v1::Manifest& manifest) {
  std::set<std::string> counted;
  int64_t bytes = 0;
  auto add = [&](const v1::BlobRef& blob) {
    if (!blob.digest().empty() && counted.insert(blob.digest()).second) bytes += blob.size_bytes();
  };
  for (const v1::BlobRef* blob :
       {&manifest.plan(), &manifest.ir(), &manifest.program(), &manifest.source(), &manifest.report()})
    add(*blob);
  for (const v1::BlobRef& blob : manifest.code()) add(blob);
  return bytes;
}

Json CompileObject(const v1::CompileResult& result, double seconds) {
  const v1::Manifest& manifest = result.manifest();
  return {{"key", result.key()},          {"result", ResultName(result.result())},
          {"seconds", Number(seconds)},   {"generation", manifest.generation()},
          {"tuned", manifest.tuned()},    {"target", manifest.target()},
          {"bytes", TotalBytes(manifest)}};
}

Json StageObject(const v1::StageSeconds& seconds) {
  return {{"import", Number(seconds.import())},   {"passes", Number(seconds.passes())},
          {"codegen", Number(seconds.codegen())}, {"compile", Number(seconds.compile())},
          {"tune", Number(seconds.tune())},       {"verify", Number(seconds.verify())}};
}

namespace {

// Null for a generation that nobody has tuned.
Json TuningObject(const v1::FusionReport& report) {
  if (!report.has_tuning()) return nullptr;
  const v1::Tuning& tuning = report.tuning();
  auto interval = [](double low, double high) { return Json{Number(low), Number(high)}; };
  Json sites = Json::array();
  for (const v1::TunedSite& site : tuning.sites()) {
    sites.push_back({{"name", site.name()},
                     {"schedule", site.schedule()},
                     {"candidates", site.candidates()},
                     {"default_us", Number(site.default_us())},
                     {"best_us", Number(site.best_us())},
                     {"ratio", Number(site.ratio())},
                     {"interval", interval(site.ratio_low(), site.ratio_high())},
                     {"from_record", site.from_record()}});
  }
  return {{"ratio", Number(tuning.ratio())},
          {"interval", interval(tuning.ratio_low(), tuning.ratio_high())},
          {"runs", tuning.runs()},
          {"machine_was_busy", tuning.machine_was_busy()},
          {"sites", sites}};
}

}  // namespace

Json ExplainObject(const v1::ExplainReply& reply) {
  const v1::FusionReport& report = reply.report();
  Json kernels = Json::array(), library = Json::array(), externs = Json::array(), breaks = Json::array();
  for (const v1::KernelReport& kernel : report.kernels()) kernels.push_back(KernelObject(kernel));
  for (const v1::CallCount& call : report.library_calls())
    library.push_back({{"name", call.name()}, {"count", call.count()}});
  for (const v1::ExternCall& call : report.extern_calls())
    externs.push_back({{"op", call.op()}, {"count", call.count()}, {"reason", call.reason()}});
  for (const v1::GraphBreak& item : report.graph_breaks())
    breaks.push_back({{"file", item.file()}, {"line", item.line()}, {"reason", item.reason()}});
  return {{"key", reply.key()},
          {"kernels_before", report.kernels_before()},
          {"kernels_after", report.kernels_after()},
          {"kernels", kernels},
          {"library_calls", library},
          {"extern_calls", externs},
          {"graph_breaks", breaks},
          {"peak_bytes_before", report.peak_bytes_before()},
          {"peak_bytes_after", report.peak_bytes_after()},
          {"tuning", TuningObject(report)},
          {"stage_seconds", StageObject(reply.seconds())}};
}

Json EvidenceObject(const v1::Evidence& evidence) {
  const bool measured = evidence.state() == v1::Evidence::OK || evidence.state() == v1::Evidence::FAILED;
  Json outputs = Json::array();
  for (const v1::OutputError& output : evidence.outputs()) {
    Json shape = Json::array();
    for (int64_t size : output.shape()) shape.push_back(size);
    outputs.push_back({{"rel_error", Number(output.rel_error())},
                       {"eager_rel_error", Number(output.eager_rel_error())},
                       {"dtype", DTypeText(output.dtype())},
                       {"shape", shape}});
  }
  return {{"rel_error", measured ? Number(evidence.rel_error()) : Json(nullptr)},
          {"eager_rel_error", measured ? Number(evidence.eager_rel_error()) : Json(nullptr)},
          {"outputs", outputs}};
}

Json ManifestObject(const v1::Manifest& manifest) {
  auto blob = [](const v1::BlobRef& ref) -> Json {
    return ref.digest().empty() ? Json(nullptr) : Json{{"digest", ref.digest()}, {"bytes", ref.size_bytes()}};
  };
  Json code = Json::array(), symbols = Json::array();
  for (const v1::BlobRef& ref : manifest.code()) code.push_back(blob(ref));
  for (const v1::Symbol& symbol : manifest.symbols()) {
    symbols.push_back({{"name", symbol.name()},
                       {"min", symbol.min()},
                       {"max", symbol.has_max() ? Json(symbol.max()) : Json(nullptr)}});
  }
  const v1::Toolchain& toolchain = manifest.toolchain();
  v1::StageSeconds seconds = manifest.seconds();
  seconds.set_verify(manifest.evidence().seconds());
  return {{"key", manifest.key()},
          {"generation", manifest.generation()},
          {"tuned", manifest.tuned()},
          {"target", manifest.target()},
          {"namespace", manifest.name_space()},
          {"verified", StateName(manifest.evidence().state())},
          {"created", Time(manifest.created_unix_ms())},
          {"bytes", TotalBytes(manifest)},
          {"toolchain",
           {{"compiler_epoch", toolchain.compiler_epoch()},
            {"host_compiler", toolchain.host_compiler()},
            {"device_compiler", toolchain.device_compiler()},
            {"plan_version", toolchain.plan_version()}}},
          {"symbols", symbols},
          {"plan", blob(manifest.plan())},
          {"code", code},
          {"ir", blob(manifest.ir())},
          {"program", blob(manifest.program())},
          {"source", blob(manifest.source())},
          {"stage_seconds", StageObject(seconds)}};
}

}  // namespace preheat::cli
