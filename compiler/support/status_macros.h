#ifndef PREHEAT_COMPILER_SUPPORT_STATUS_MACROS_H_
#define PREHEAT_COMPILER_SUPPORT_STATUS_MACROS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// RETURN_IF_ERROR(expr): returns the status of `expr` from the enclosing function unless it is OK.
#define RETURN_IF_ERROR(expr)                                                                \
  do {                                                                                       \
    if (::absl::Status preheat_status = (expr); !preheat_status.ok()) return preheat_status; \
  } while (false)

#define PREHEAT_CONCAT_INNER(a, b) a##b
#define PREHEAT_CONCAT(a, b) PREHEAT_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto x, expr): declares or assigns x from a StatusOr, or returns its status.
#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL(PREHEAT_CONCAT(preheat_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                          \
  if (!tmp.ok()) return tmp.status();         \
  lhs = *std::move(tmp)

#endif  // PREHEAT_COMPILER_SUPPORT_STATUS_MACROS_H_
