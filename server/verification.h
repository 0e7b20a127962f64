#ifndef PREHEAT_SERVER_VERIFICATION_H_
#define PREHEAT_SERVER_VERIFICATION_H_

#include "proto/preheat/v1/store.pb.h"
#include "server/services.h"

namespace preheat::server {

// Holds a new generation against the reference when a worker has nothing better to do. What is found is stored beside
// the manifest; a generation that fails is withdrawn by that.
void StartVerification(Services& services, const v1::GenerationRecord& record);

// What an earlier server has published and not verified any more.
void ResumeVerifications(Services& services);

// The same because somebody asks, and waits. NOT_FOUND "unknown_key". Own inputs are judged but leave no evidence.
absl::StatusOr<v1::VerifyReply> Verify(Services& services, const v1::VerifyRequest& request, const Caller& caller);

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_VERIFICATION_H_
