#!/usr/bin/env python3
"""What shared objects need of the machine they are loaded on: the newest symbol versions of glibc and libstdc++.

deploy/check_floor.py FILE...     prints "GLIBC 2.34, GLIBCXX 3.4.29"; fails where a file needs more than LIMITS,
                                  links torch or Python, or, one of ours, exports other names than preheat_*
"""

from __future__ import annotations

import re
import subprocess
import sys

LIMITS = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)}
FORBIDDEN = re.compile(r"lib(torch|c10|python)")
_NEEDED = re.compile(r"NEEDED\s+(\S+)")
_UNDEFINED = re.compile(r"\*UND\*.*\((GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)\)")

Version = tuple[int, ...]


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needs(path: str) -> dict[str, Version]:
    """The newest version of each kind that the file has a symbol of."""
    found: dict[str, Version] = {}
    for kind, text in _UNDEFINED.findall(output("objdump", "-T", path)):
        version = tuple(int(part) for part in text.split("."))
        found[kind] = max(found.get(kind, version), version)
    return found


def exports(path: str) -> list[str]:
    lines = output("nm", "-D", "--defined-only", path).splitlines()
    return [line.split()[-1].partition("@")[0] for line in lines if line.split()[-2] not in ("w", "V")]


def problems(path: str) -> list[str]:
    out = [f"{path} needs {kind}_{show(v)}, more than {show(LIMITS[kind])}" for kind, v in needs(path).items()
           if v > LIMITS[kind]]  # fmt: skip
    linked = [n for n in _NEEDED.findall(output("objdump", "-p", path)) if FORBIDDEN.match(n)]
    out += [f"{path} links {name}" for name in linked]
    if "libpreheat_" in path:
        out += [f"{path} exports {name}" for name in exports(path) if not name.startswith("preheat_")]
    return out


def show(version: Version) -> str:
    return ".".join(map(str, version))


def main(paths: list[str]) -> int:
    wrong = [problem for path in paths for problem in problems(path)]
    for problem in wrong:
        print(problem, file=sys.stderr)
    every = [needs(path) for path in paths]
    newest = {kind: max((n[kind] for n in every if kind in n), default=()) for kind in ("GLIBC", "GLIBCXX")}
    print(", ".join(f"{kind} {show(version)}" for kind, version in newest.items()))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
