#include "client/load/load_client.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/ask_by_digest.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/retry_after.h"

namespace preheat::load {
namespace {

// Every blob that the manifest names.
std::vector<v1::BlobRef> Named(const v1::Manifest& manifest) {
  std::vector<v1::BlobRef> blobs(manifest.code().begin(), manifest.code().end());
  for (const v1::BlobRef* blob :
       {&manifest.plan(), &manifest.ir(), &manifest.program(), &manifest.source(), &manifest.report()}) {
    if (!blob->digest().empty()) blobs.push_back(*blob);
  }
  return blobs;
}

std::string Describe(const absl::Status& status) {
  return absl::StrCat(GetError(status).kind, ": ", std::string(status.message()));
}

}  // namespace

// A question and all that it takes to answer it.
struct LoadClient::Round {
  explicit Round(std::shared_ptr<const Question> asked) : question(std::move(asked)), by_digest(question->large) {}

  const v1::CompileRequest& request() const { return by_digest ? question->by_digest : question->whole; }

  const std::shared_ptr<const Question> question;
  const absl::Time begun = absl::Now();
  bool by_digest;
  v1::CompileResult result;
  std::atomic<int> missing{0};       // blobs
  std::atomic<int64_t> bytes{0};     // verified
  std::atomic<bool> corrupt{false};  // or not to be had
};

class LoadClient::Compile : public grpc::ClientReadReactor<v1::CompileEvent> {
 public:
  Compile(LoadClient& client, std::shared_ptr<Round> round) : client_(client), round_(std::move(round)) {}

  void Start() {
    absl::Status ready = client_.connection_.Prepare(context_, absl::Now() + client_.options_.client.deadline,
                                                     Connection::NewRequestId());
    if (!ready.ok()) {
      client_.Answered(round_, ready);
      delete this;
      return;
    }
    client_.connection_.compiler().async()->Compile(&context_, &round_->request(), this);
    StartRead(&event_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (event_.has_done()) round_->result = std::move(*event_.mutable_done());
    StartRead(&event_);
  }

  void OnDone(const grpc::Status& status) override {
    client_.Answered(std::move(round_), client_.connection_.ToStatus(status));
    delete this;
  }

 private:
  LoadClient& client_;
  std::shared_ptr<Round> round_;
  grpc::ClientContext context_;
  v1::CompileEvent event_;
};

class LoadClient::Blob : public grpc::ClientReadReactor<v1::BlobChunk> {
 public:
  Blob(LoadClient& client, std::shared_ptr<Round> round, const v1::BlobRef& blob)
      : client_(client), round_(std::move(round)) {
    request_.set_digest(blob.digest());
    bytes_.reserve(static_cast<size_t>(std::min<int64_t>(blob.size_bytes(), int64_t{64} << 20)));
  }

  void Start() {
    // The compile's context was prepared the same way: this cannot fail.
    client_.connection_.Prepare(context_, absl::Now() + client_.options_.client.deadline, Connection::NewRequestId())
        .IgnoreError();
    client_.connection_.cache().async()->ReadBlob(&context_, &request_, this);
    StartRead(&chunk_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    bytes_ += chunk_.data();
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    if (!status.ok() || Digest(bytes_) != request_.digest()) round_->corrupt = true;
    round_->bytes += static_cast<int64_t>(bytes_.size());
    client_.Fetched(round_);
    delete this;
  }

 private:
  LoadClient& client_;
  const std::shared_ptr<Round> round_;
  v1::ReadBlobRequest request_;
  grpc::ClientContext context_;
  v1::BlobChunk chunk_;
  std::string bytes_;
};

LoadClient::LoadClient(Options options)
    : options_(std::move(options)), connection_(options_.client, Connection::Socket::kOwn) {}

LoadClient::~LoadClient() { Wait(); }

void LoadClient::Start(absl::Time end) {
  end_ = end;
  running_ = true;
  AskOrEnd();
}

void LoadClient::Wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return !running_; });
}

void LoadClient::AskOrEnd() {
  if (absl::Now() < end_) return Ask(std::make_shared<Round>(options_.next()));
  std::lock_guard lock(mutex_);
  running_ = false;
  ended_.notify_all();
}

void LoadClient::Ask(std::shared_ptr<Round> round) { (new Compile(*this, std::move(round)))->Start(); }

// Like any client: as long as the server says, or longer each time.
void LoadClient::Pause(const absl::Status& status) {
  absl::Duration pause = backoff_.Next();
  if (auto asked = GetRetryAfter(status)) pause += absl::FromChrono(*asked);
  pause_ = std::make_unique<grpc::Alarm>();
  pause_->Set(absl::ToChronoTime(std::min(absl::Now() + pause, end_)), [this](bool) { AskOrEnd(); });
}

void LoadClient::Answered(std::shared_ptr<Round> round, const absl::Status& status) {
  const bool by_digest = std::exchange(round->by_digest, false);
  if (by_digest && NeedAfter(status, round->result.result()) != Need::kNothing) return Ask(std::move(round));
  if (!status.ok()) {
    if (absl::Now() < end_) tally_.AddError(Describe(status));
    return Pause(status);
  }
  if (options_.fetch_all) return Fetch(round);
  Finish(*round);
}

void LoadClient::Fetch(const std::shared_ptr<Round>& round) {
  std::vector<v1::BlobRef> absent;
  for (const v1::BlobRef& blob : Named(round->result.manifest())) {
    const auto inlined = round->result.blobs().find(blob.digest());
    if (inlined == round->result.blobs().end()) {
      absent.push_back(blob);
      continue;
    }
    if (Digest(inlined->second) != blob.digest()) round->corrupt = true;
    round->bytes += static_cast<int64_t>(inlined->second.size());
  }
  round->missing = static_cast<int>(absent.size());
  if (absent.empty()) return Finish(*round);
  for (const v1::BlobRef& blob : absent) (new Blob(*this, round, blob))->Start();
}

void LoadClient::Fetched(const std::shared_ptr<Round>& round) {
  if (--round->missing == 0) Finish(*round);
}

void LoadClient::Finish(const Round& round) {
  const absl::Time now = absl::Now();
  if (now < end_) {
    tally_.bytes += round.bytes;
    if (round.corrupt) {
      tally_.AddError("corrupt_blob: a blob did not come or did not match its digest");
    } else if (round.result.result() == v1::HIT) {
      tally_.hit_ms.push_back(absl::ToDoubleMilliseconds(now - round.begun));
    } else {
      ++(round.result.result() == v1::COMPILED ? tally_.compiles : tally_.coalesced);
    }
  }
  AskOrEnd();
}

}  // namespace preheat::load
