#ifndef PREHEAT_SERVER_PROCESS_MEMORY_H_
#define PREHEAT_SERVER_PROCESS_MEMORY_H_

#include <sys/types.h>

#include <cstdint>

namespace preheat::server {

// Resident memory of a process and of all that it has started, in bytes. Pages that they share count more than once; a
// process that is gone holds nothing.
int64_t ResidentBytesWithChildren(pid_t pid);

// What this machine, or the control group that this process is in, has in all.
int64_t MachineMemoryBytes();

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_PROCESS_MEMORY_H_
