#include "kernels/runtime/c_status.h"

#include <string>

struct preheat_status {
  std::string code;
  preheat::Error error;
};

namespace preheat::runtime {

preheat_status* ToC(const absl::Status& status) {
  if (status.ok()) return nullptr;
  return new preheat_status{CodeName(status.code()), GetError(status)};
}

}  // namespace preheat::runtime

const char* preheat_status_code(const preheat_status* s) { return s != nullptr ? s->code.c_str() : "OK"; }
const char* preheat_status_kind(const preheat_status* s) { return s != nullptr ? s->error.kind.c_str() : ""; }
const char* preheat_status_message(const preheat_status* s) { return s != nullptr ? s->error.message.c_str() : ""; }
const char* preheat_status_where(const preheat_status* s) { return s != nullptr ? s->error.where.c_str() : ""; }
const char* preheat_status_fix(const preheat_status* s) { return s != nullptr ? s->error.fix.c_str() : ""; }
void preheat_status_free(preheat_status* s) { delete s; }

preheat_status* preheat_status_new(const char* code, const char* kind, const char* message) {
  const auto text = [](const char* s) { return std::string(s != nullptr ? s : ""); };
  return new preheat_status{text(code), {.kind = text(kind), .message = text(message), .where = "", .fix = ""}};
}
