"""Every error says what to do about it: where it is made, or by the table of compiler/support/default_fix.cc."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from test_errors_page import ROOT, kinds_on_page, sources

TABLE = ROOT / "compiler" / "support" / "default_fix.cc"
LITERAL = re.compile(r'"([a-z][a-z0-9_]*)"')
HELPER = re.compile(r"\babsl::Status (?:\w+::)*(\w+)\(")


def balanced(text: str, start: int, pair: str = "()") -> str:
    """What stands between the bracket at `start` and its partner; brackets in string literals do not count."""
    depth, at = 0, start
    while at < len(text):
        if text[at] == '"':
            at = re.compile(r'"(?:[^"\\]|\\.)*"', re.S).match(text, at).end() - 1  # type: ignore[union-attr]
        depth += (text[at] == pair[0]) - (text[at] == pair[1])
        if depth == 0:
            return text[start + 1 : at]
        at += 1
    raise AssertionError(f"no end: {text[start : start + 80]}")


def split(arguments: str) -> list[str]:
    """At the commas of the outermost level."""
    parts, depth, begun, at = [], 0, 0, 0
    while at < len(arguments):
        if arguments[at] == '"':
            at = re.compile(r'"(?:[^"\\]|\\.)*"', re.S).match(arguments, at).end() - 1  # type: ignore[union-attr]
        depth += (arguments[at] in "({[") - (arguments[at] in ")}]")
        if arguments[at] == "," and depth == 0:
            parts.append(arguments[begun:at].strip())
            begun = at + 1
        at += 1
    last = arguments[begun:].strip()
    return [*parts, last] if last else parts


def field(made: str, name: str) -> str | None:
    """The expression of `.name = ` in the braces of an Error."""
    for part in split(balanced(made, made.index("{"), "{}")) if "{" in made else []:
        if match := re.match(rf"\.{name}\s*=\s*(.*)", part, re.S):
            return match[1]
    return None


@dataclass
class Helper:
    """A function that makes errors of what it is given."""

    kind: str  # an expression: literals, or a parameter
    fix: str | None
    parameters: list[str]

    def of(self, expression: str | None, arguments: list[str]) -> str | None:
        """What the expression becomes in a call."""
        name = re.sub(r"^std::move\((\w+)\)$|^std::string\((\w+)\)$", r"\1\2", expression or "")
        if name not in self.parameters:
            return expression
        place = self.parameters.index(name)
        return arguments[place] if place < len(arguments) else None


def parameter_name(parameter: str) -> str:
    return re.split(r"[\s&*]+", parameter.split("=")[0].strip())[-1]


def without_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.M)


def helpers(text: str) -> dict[str, Helper]:
    found: dict[str, Helper] = {}
    for match in HELPER.finditer(text):
        parameters = balanced(text, match.end() - 1)
        opening = re.compile(r"\s*(?:const )?\{").match(text, match.end() + len(parameters) + 1)
        if opening is None:
            continue
        body = balanced(text, opening.end() - 1, "{}")
        at = body.find("MakeError(")
        if at < 0 or body.count("MakeError(") != 1:
            continue
        made = balanced(body, at + len("MakeError"))
        kind, names = field(made, "kind"), [parameter_name(p) for p in split(parameters)]
        fix = field(made, "fix")
        taken = {re.sub(r"^std::move\((\w+)\)$|^std::string\((\w+)\)$", r"\1\2", e or "") for e in (kind, fix)}
        if kind is not None and taken & set(names):
            found[match[1]] = Helper(kind, fix, names)
    return found


def errors_made(text: str) -> Iterator[tuple[str, str | None]]:
    """Of each place that makes one, the expressions of its kind and its fix."""
    known = helpers(text)
    for match in re.finditer(r"\bMakeError\(", text):
        made = balanced(text, match.end() - 1)
        if "{" in made and (kind := field(made, "kind")) is not None:
            yield kind, field(made, "fix")
    for name, helper in known.items():
        for match in re.finditer(rf"(?<!absl::Status )\b{name}\(", text):
            arguments = split(balanced(text, match.end() - 1))
            yield helper.of(helper.kind, arguments) or "", helper.of(helper.fix, arguments)


def without_fix() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sources("*.cc", "*.h"):
        for kind, fix in errors_made(without_comments(file.read_text())):
            if fix in (None, '""', "{}", "std::string()"):
                for name in LITERAL.findall(kind):
                    found.setdefault(name, str(file.relative_to(ROOT)))
    return found


def kinds_in_table() -> dict[str, str]:
    return dict(re.findall(r'\{"(\w+)",\s*("[^"]+|k[A-Z]\w+)', TABLE.read_text()))


def test_the_search_finds_errors_without_a_fix() -> None:
    text = """absl::Status Bad(std::string kind, std::string fix = "") {
      return MakeError(absl::StatusCode::kInternal, {.kind = std::move(kind), .message = "x", .fix = std::move(fix)});
    }
    absl::Status A() { return Bad("one"); }
    absl::Status B() { return Bad("two", "do (this"); }
    absl::Status C() { return MakeError(absl::StatusCode::kInternal, {.kind = "three", .message = "m, {", .fix = ""}); }
    """
    bare = {kind for kind, fix in errors_made(text) if fix in (None, '""') and LITERAL.match(kind)}
    assert bare == {'"one"', '"three"'}


def test_every_error_says_what_to_do() -> None:
    table = kinds_in_table()
    missing = {kind: file for kind, file in without_fix().items() if kind not in table}
    assert not missing, f"give a .fix there, or a row in {TABLE.relative_to(ROOT)}: {missing}"


def test_the_table_names_kinds_that_exist() -> None:
    codes = {"internal", "unknown", "unavailable", "data_loss", "unimplemented", "deadline_exceeded", "already_exists",
             "aborted", "not_found", "out_of_range", "resource_exhausted", "failed_precondition", "permission_denied",
             "unauthenticated"}  # fmt: skip
    assert len(kinds_in_table()) > 20, "the search finds them"
    stale = set(kinds_in_table()) - set(kinds_on_page()) - codes
    assert not stale, f"on no page: {stale}"
