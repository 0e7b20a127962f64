#include "compiler/support/version.h"

namespace preheat {

const char* Version() { return PREHEAT_VERSION; }

}  // namespace preheat
