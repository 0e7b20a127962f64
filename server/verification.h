#ifndef PREHEAT_SERVER_VERIFICATION_H_
#define PREHEAT_SERVER_VERIFICATION_H_

#include <functional>
#include <string>

#include "proto/preheat/v1/pool.pb.h"
#include "proto/preheat/v1/store.pb.h"
#include "server/services.h"

namespace preheat::server {

// Holds a new generation against the reference when a worker has nothing better to do. What is found is stored beside
// the manifest; a generation that fails is withdrawn by that.
void StartVerification(Services& services, const v1::GenerationRecord& record);

// Where the server is set to hold every reply until the reference has spoken (verify_first): goes on with `done` once a
// worker has put its evidence into the manifest, which then is published with it; with a status when no worker could
// say anything, now. Otherwise, and where `done` holds no artifact, at once.
using DoneFn = std::function<void(absl::StatusOr<v1::TaskDone>)>;
void VerifyFirst(Services& services, v1::TaskDone done, DoneFn go_on);

// What who asked for the program is told when it has failed.
absl::Status FailedVerification(const std::string& key);

// What an earlier server has published and not verified any more.
void ResumeVerifications(Services& services);

// The same because somebody asks, and waits. NOT_FOUND "unknown_key". Own inputs are judged but leave no evidence.
absl::StatusOr<v1::VerifyReply> Verify(Services& services, const v1::VerifyRequest& request, const Caller& caller);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_VERIFICATION_H_
