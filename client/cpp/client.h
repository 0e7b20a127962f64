#ifndef PREHEAT_CLIENT_CPP_CLIENT_H_
#define PREHEAT_CLIENT_CPP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/executable.h"
#include "proto/preheat/v1/cache.pb.h"
#include "proto/preheat/v1/compile.pb.h"
#include "proto/preheat/v1/pool.pb.h"

namespace preheat {

// Where the server is and who asks. What is left empty is read from the environment.
struct ClientOptions {
  std::string server;             // "host:port"; PREHEAT_SERVER, else localhost:7433
  std::string tls_ca;             // PEM file: TLS, and the server must be signed by it
  std::string tls_cert, tls_key;  // PEM files: the client's own identity
  std::string token_file;         // PREHEAT_TOKEN_FILE; read at each call, so that it may be rotated
  std::string name_space;         // PREHEAT_NAMESPACE
  std::string job_id;             // PREHEAT_JOB_ID, TORCHELASTIC_RUN_ID or SLURM_JOB_ID
  std::string cache_dir;          // PREHEAT_CACHE_DIR, else ~/.cache/preheat

  absl::Duration deadline = absl::Minutes(10);  // of one call, attempts and waits included
  int attempts = 4;                             // while no server can be reached
  int threads = 0;                              // of executables; 0: OpenMP's choice

  // A request that was answered before is answered from the local cache while no server can be reached.
  bool offline = true;
};

// How a program shall be compiled.
struct RequestOptions {
  std::string target = "cpu";
  std::map<std::string, int64_t> dims;  // values for named dimensions; the others stay ranges
  v1::Mode mode = v1::BACKGROUND;
  bool freeze = false;  // parameters, buffers and constants change only with Refresh
  std::vector<std::string> exclude;
  bool extern_allowed = false;  // an extern handler will be bound
  std::string name;             // for listings
  uint32_t generation = 0;      // 0: the newest, or the job's pinned one
  bool lookup_only = false;     // answer MISSING rather than compile
};

// Told while a compile goes on, from the calling thread.
using ProgressFn = std::function<void(const v1::Progress&)>;

// The service, as a program calls it. Cheap to copy; thread-safe. Every status carries an Error
// (compiler/support/error.h); UNAVAILABLE "unreachable" and DEADLINE_EXCEEDED "deadline" are the network's.
class Client {
 public:
  explicit Client(ClientOptions options);

  // Compiles or fetches, loads. The story of a job.
  absl::StatusOr<Executable> Compile(const v1::Program& program, const RequestOptions& options);
  absl::StatusOr<Executable> Compile(const v1::Source& source, const RequestOptions& options,
                                     const ProgressFn& progress = nullptr);

  // Its parts. Request gives the answer without bytes; Load fetches what is not in the local cache.
  absl::StatusOr<v1::CompileResult> Request(const v1::Source& source, const RequestOptions& options,
                                            const ProgressFn& progress = nullptr);
  absl::StatusOr<Executable> Load(v1::CompileResult result);
  // From the local cache or the server; the digest is verified, DATA_LOSS "corrupt_blob" otherwise.
  absl::StatusOr<std::string> ReadBlob(const v1::BlobRef& blob);

  // The request as Request would send it: for Explain and WhyMiss.
  v1::CompileRequest MakeRequest(const v1::Source& source, const RequestOptions& options) const;

  absl::StatusOr<v1::LookupReply> Lookup(v1::LookupRequest request);
  absl::StatusOr<v1::ExplainReply> Explain(const v1::ExplainRequest& request);
  absl::StatusOr<v1::VerifyReply> Verify(const v1::VerifyRequest& request);
  absl::StatusOr<v1::WhyMissReply> WhyMiss(const v1::CompileRequest& request);
  absl::StatusOr<v1::StatsReply> Stats();
  absl::StatusOr<v1::ListReply> List(const std::string& key_prefix = "");
  absl::Status Pin(const std::string& key, uint32_t generation);
  absl::Status Unpin(const std::string& key);
  absl::StatusOr<v1::RemoveReply> Remove(const v1::RemoveRequest& request);
  absl::StatusOr<v1::CollectGarbageReply> CollectGarbage(bool dry_run);
  absl::StatusOr<v1::ListWorkersReply> ListWorkers();

  // Archives of the cache (compilectl export, import). Told of the bytes so far, from the calling thread. Export leaves
  // no file behind when it fails; Import leaves nothing behind on the server. No keys: all.
  using BytesFn = std::function<void(int64_t)>;
  absl::StatusOr<int64_t> Export(const std::vector<std::string>& keys, const std::string& path,
                                 const BytesFn& progress = nullptr);
  absl::StatusOr<v1::ImportReply> Import(const std::string& path, const BytesFn& progress = nullptr);

  // With every default filled in.
  const ClientOptions& options() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace preheat

#endif  // PREHEAT_CLIENT_CPP_CLIENT_H_
