"""server/ERRORS.md names every kind of error that the sources can give, and none that they cannot."""

from __future__ import annotations

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "server" / "ERRORS.md"
KIND = r"\"([a-z][a-z0-9_]*)\""
# A helper that makes errors: its first or second parameter is the kind.
HELPER = re.compile(
    r"\b(\w+)\((?:[\w:&* ]+ \w+, )?(?:std::string|const std::string&|const char\*|absl::string_view) kind\b"
)


def sources(*endings: str) -> list[pathlib.Path]:
    listed = subprocess.run(["git", "ls-files", *endings], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / line for line in listed.stdout.splitlines()]
    return [file for file in files if file.is_file() and not is_test(file)]


def is_test(file: pathlib.Path) -> bool:
    path = file.relative_to(ROOT)
    return path.parts[0] in ("tests", "deploy") or path.stem.endswith("_test") or "fake_worker" in path.parts


def kinds_in_cpp() -> dict[str, str]:
    texts = {file: file.read_text() for file in sources("*.cc", "*.h")}
    shared = {name for file, text in texts.items() if file.suffix == ".h" for name in HELPER.findall(text)}
    found: dict[str, str] = {}
    for file, text in texts.items():
        names = shared | set(HELPER.findall(text))
        pattern = rf"(?:(?<!\w)|error)\.kind\s*=\s*(?:[\w.()!]+ \? )?{KIND}(?: : {KIND})?"
        if names:
            pattern += rf"|\b(?:{'|'.join(sorted(names))})\(\s*(?:[\w:.]+,\s*)?{KIND}"
        for match in re.finditer(pattern, text):
            for kind in filter(None, match.groups()):
                found.setdefault(kind, str(file.relative_to(ROOT)))
    return found


def kinds_in_python() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sources("client/python/preheat/*.py"):
        for kind in re.findall(rf"PreheatError\(\s*\"[A-Z_]+\",\s*{KIND}", file.read_text()):
            found.setdefault(kind, str(file.relative_to(ROOT)))
    return found


def kinds_on_page() -> list[str]:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [kind for row in rows for kind in re.findall(r"`([a-z][a-z0-9_]*)`", row.split("|")[1])]


def test_every_kind_is_on_the_page() -> None:
    used = kinds_in_cpp() | kinds_in_python()
    assert len(used) > 100, "the search finds them"
    listed = kinds_on_page()
    missing = {kind: file for kind, file in used.items() if kind not in listed}
    assert not missing, f"add to {PAGE.relative_to(ROOT)}: {missing}"
    stale = set(listed) - set(used)
    assert not stale, f"no source gives these any more: {stale}"
    assert len(listed) == len(set(listed)), "a kind has one row"
