#ifndef PREHEAT_SERVER_PROCESS_USE_H_
#define PREHEAT_SERVER_PROCESS_USE_H_

#include <cstdint>

namespace preheat::server {

// What this process takes of its machine, from /proc/self; 0 for what cannot be read.
struct ProcessUse {
  int64_t resident_bytes = 0;
  int64_t open_files = 0;
  double cpu_seconds = 0;
  double start_unix_seconds = 0;
};
ProcessUse ReadProcessUse();

}  // namespace preheat::server

#endif  // PREHEAT_SERVER_PROCESS_USE_H_
