#include "server/identity.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/support/digest.h"
#include "compiler/support/error.h"
#include "compiler/support/status_macros.h"
#include "server/read_text.h"

namespace preheat::server {
namespace {

absl::Status Invalid(std::string message, std::string where) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.kind = "invalid_config",
                    .message = std::move(message),
                    .where = std::move(where),
                    .fix = "a line of the token file is: NAME NAMESPACE user|admin SHA256"});
}

absl::Status Unauthenticated(std::string kind, std::string message) {
  return MakeError(absl::StatusCode::kUnauthenticated,
                   {.kind = std::move(kind),
                    .message = std::move(message),
                    .where = "",
                    .fix = "give --token-file, or PREHEAT_TOKEN_FILE, the path of a file with your token"});
}

}  // namespace

absl::StatusOr<Tokens::ByDigest> Tokens::Parse(const std::string& text, const std::string& path) {
  ByDigest tokens;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string where = absl::StrCat(path, ":", ++number);
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || absl::StartsWith(line, "#")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 4) return Invalid(absl::StrCat("the line has ", words.size(), " words, not 4"), where);
    if (words[2] != "user" && words[2] != "admin") return Invalid(absl::StrCat(words[2], " is no role"), where);
    if (!IsDigest(words[3])) return Invalid("the fourth word is no SHA-256 of 64 lower-case hexadecimal digits", where);
    Identity identity{.name = words[0], .name_space = words[1], .admin = words[2] == "admin"};
    if (!tokens.emplace(words[3], std::move(identity)).second) return Invalid("this token has a line already", where);
  }
  return tokens;
}

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Read(const std::string& path) {
  std::optional<std::string> text = ReadText(path);
  if (!text) return Invalid("the token file cannot be read", path);
  std::unique_ptr<Tokens> tokens(new Tokens(path));
  ASSIGN_OR_RETURN(tokens->by_digest_, Parse(*text, path));
  tokens->text_ = *std::move(text);
  return tokens;
}

absl::Status Tokens::Refresh() {
  std::optional<std::string> text = ReadText(path_);
  if (!text) return Invalid("the token file cannot be read", path_);
  {
    std::lock_guard lock(mutex_);
    if (*text == text_) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(ByDigest fresh, Parse(*text, path_));
  std::lock_guard lock(mutex_);
  by_digest_ = std::move(fresh);
  text_ = *std::move(text);
  return absl::OkStatus();
}

absl::StatusOr<Identity> Tokens::Check(absl::string_view authorization) {
  if (authorization.empty()) return Unauthenticated("no_token", "this server answers only who shows a token");
  absl::string_view token = authorization;
  if (!absl::ConsumePrefix(&token, "Bearer "))
    return Unauthenticated("no_token", "the authorization is no bearer token");
  const std::string digest = Digest(token);  // what is compared is no secret: its time tells nothing
  std::lock_guard lock(mutex_);
  auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) return Unauthenticated("unknown_token", "this server does not know the token");
  return found->second;
}

}  // namespace preheat::server
