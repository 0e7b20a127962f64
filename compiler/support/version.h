#ifndef PREHEAT_COMPILER_SUPPORT_VERSION_H_
#define PREHEAT_COMPILER_SUPPORT_VERSION_H_

namespace preheat {

// Of this build, as the root CMakeLists.txt has it: "0.1.0".
const char* Version();

}  // namespace preheat

#endif  // PREHEAT_COMPILER_SUPPORT_VERSION_H_
