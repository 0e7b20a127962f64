#ifndef PREHEAT_SERVER_WORKER_FAULT_HOOK_H_
#define PREHEAT_SERVER_WORKER_FAULT_HOOK_H_

#include <string>

namespace preheat::worker {

// For tests of what a lost worker costs. PREHEAT_WORKER_FAULT="crash=a,hang=b,grow=c,stop=d" makes the compile of a
// request named "a" end the process, "b" never end, "c" take memory until somebody stops it, "d" stand still,
// heartbeats and all. "crash-once=FILE:e" crashes unless FILE is there, and leaves it. Does nothing when the variable
// is not set.
void DoWhatFaultsSay(const std::string& request_name);

}  // namespace preheat::worker

#endif  // PREHEAT_SERVER_WORKER_FAULT_HOOK_H_
