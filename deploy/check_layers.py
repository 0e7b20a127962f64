#!/usr/bin/env python3
"""Holds every #include of our own headers against the link lists of CMake: the folders are the layers.

The table is not here. It is read from the CMakeLists.txt files: what `preheat_layer(NAME DEPS ...)`,
`preheat_program(...)`, `preheat_headers(...)` and `target_link_libraries(...)` of a folder name is all that its
sources may include, and the root file's list of folders is the order in which they may lean on each other. This
file adds only the rules that no link list can say (RULES below).

Usage: check_layers.py [ROOT]. Prints one line for each breach and exits with 1 if there is any.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

SOURCE_ENDINGS = {".cc", ".h", ".cu", ".cuh", ".def"}
SKIPPED = {"build", ".venv", ".git", ".cache", ".ci", "examples"}

# Headers of libraries, told by the front of their name.
TORCH = ("torch/", "ATen/", "c10/", "caffe2/")
PROTOBUF = ("google/protobuf/",)
GRPC = ("grpc/", "grpcpp/", "grpc++/")
ONEDNN = ("oneapi/dnnl/", "dnnl")


@dataclass(frozen=True)
class Rule:
    """Sources in `folders` (prefixes; "" is everywhere) reach none of `libraries`, unless in `except_in`."""

    reason: str
    libraries: tuple[str, ...]
    folders: tuple[str, ...] = ("",)
    except_in: tuple[str, ...] = ()


RULES = (
    Rule(
        "torch headers belong to compiler/reference, compiler/capture/torch_script and client/torch",
        TORCH,
        except_in=("compiler/reference", "compiler/capture/torch_script", "client/torch"),
    ),
    Rule("the runtime runs without gRPC and Protobuf", GRPC + PROTOBUF, folders=("kernels", "compiler/artifact")),
    Rule("oneDNN is met in kernels/library only", ONEDNN, except_in=("kernels/library",)),
)
# Libraries that export each other's symbols or ship each other's headers: no source may reach two of them.
APART = (("torch", TORCH), ("Protobuf", PROTOBUF), ("oneDNN", ONEDNN))

# Folders that may never lean on others, however the order of the root file stands.
NEVER = {
    "client": ("server", "cache"),
    "server": ("client",),
    "cache": ("compiler/ir", "compiler/passes", "compiler/codegen", "compiler/schedule"),
    "kernels": ("proto", "cache", "server", "client", "compiler/ir", "compiler/codegen", "compiler/capture"),
    "compiler": ("cache", "server", "client", "autotune"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
COMMAND = re.compile(r"(\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.DOTALL)
OUR_TARGET = re.compile(r"(?:^|[\s:;])preheat_(\w+)")  # also within a generator expression
KEYWORDS = {"DEPS", "TEST_DEPS", "PUBLIC_LIBS", "PRIVATE_LIBS", "LIBS", "SOURCES", "NO_WERROR"}


@dataclass
class Layer:
    """One folder with a CMakeLists.txt."""

    folder: str
    targets: set[str] = field(default_factory=set)  # names as written after preheat_
    deps: dict[str, int] = field(default_factory=dict)  # layer name -> line where it is linked
    test_deps: dict[str, int] = field(default_factory=dict)  # what tests may include besides


@dataclass(frozen=True)
class Include:
    line: int
    name: str


def strip_comments(text: str) -> str:
    """CMake text without comments, lines kept."""
    return re.sub(r"#[^\n]*", "", text)


def split_keywords(words: list[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {"": []}
    current = ""
    for word in words:
        if word in KEYWORDS:
            current = word
            groups.setdefault(current, [])
        else:
            groups[current].append(word)
    return groups


class Tree:
    """The project's folders, their link lists and their includes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layers: dict[str, Layer] = {}
        for cmake in sorted(root.rglob("CMakeLists.txt")):
            folder = cmake.parent.relative_to(root).as_posix()
            if folder != "." and not SKIPPED & set(cmake.relative_to(root).parts):
                self.layers[folder] = self.read_layer(folder, strip_comments(cmake.read_text()))

    @staticmethod
    def read_layer(folder: str, text: str) -> Layer:
        layer = Layer(folder)
        for match in COMMAND.finditer(text):
            command, words = match.group(1), match.group(2).split()
            line = text.count("\n", 0, match.start()) + 1
            if command in ("preheat_layer", "preheat_program", "preheat_fuzz_target"):
                groups = split_keywords(words)
                if command != "preheat_fuzz_target":  # named after what it reads, which may be a layer
                    layer.targets.add(words[0])
                layer.deps |= dict.fromkeys(groups.get("DEPS", []), line)
                layer.test_deps |= dict.fromkeys(groups.get("TEST_DEPS", []), line)
                words = [word for key in ("PUBLIC_LIBS", "PRIVATE_LIBS", "LIBS") for word in groups.get(key, [])]
            elif command == "preheat_headers":
                layer.deps |= dict.fromkeys(words, line)
                continue
            elif command in ("add_library", "add_executable"):
                layer.targets.add(words[0].removeprefix("preheat_"))
                continue
            elif command != "target_link_libraries":
                continue
            ours = OUR_TARGET.findall(" ".join(words))
            target = layer.test_deps if words and words[0].endswith("_test") else layer.deps
            target |= dict.fromkeys(ours, line)
        return layer

    @cached_property
    def folder_of_target(self) -> dict[str, str]:
        return {target: layer.folder for layer in self.layers.values() for target in layer.targets}

    @cached_property
    def order(self) -> list[str]:
        """Folders of the root file's loop, first to last."""
        text = strip_comments((self.root / "CMakeLists.txt").read_text())
        loop = re.search(r"foreach\s*\(\s*folder\s+([^)]*)\)", text)
        return loop.group(1).split() if loop else []

    def rank(self, folder: str) -> int | None:
        """Place of the entry of the root list that `folder` belongs to: the longest that it starts with."""
        entries = [entry for entry in self.order if folder == entry or folder.startswith(entry + "/")]
        return self.order.index(max(entries, key=len)) if entries else None

    def folder_of(self, path: str) -> str | None:
        """The layer folder that a file of ours, generated ones too, belongs to."""
        parent = Path(path).parent
        while parent.as_posix() != ".":
            if parent.as_posix() in self.layers:
                return parent.as_posix()
            parent = parent.parent
        return None

    def sources(self) -> Iterator[str]:
        for path in sorted(self.root.rglob("*")):
            relative = path.relative_to(self.root)
            if path.suffix in SOURCE_ENDINGS and not SKIPPED & set(relative.parts):
                yield relative.as_posix()

    @cached_property
    def includes(self) -> dict[str, list[Include]]:
        found = {}
        for source in self.sources():
            text = (self.root / source).read_text(errors="replace")
            found[source] = [
                Include(text.count("\n", 0, match.start(match.lastindex or 0)) + 1, match.group(1) or match.group(2))
                for match in INCLUDE.finditer(text)
            ]
        return found

    def reached(self, source: str) -> dict[str, tuple[str, int]]:
        """Every header that `source` sees, through our headers too, with the file and line that includes it."""
        seen: dict[str, tuple[str, int]] = {}
        waiting = [source]
        while waiting:
            current = waiting.pop()
            for include in self.includes.get(current, []):
                if include.name not in seen:
                    seen[include.name] = (current, include.line)
                    waiting.append(include.name)
        return seen

    def allowed(self, folder: str, is_test: bool) -> set[str]:
        layer = self.layers[folder]
        names = layer.deps | layer.test_deps if is_test else layer.deps
        return {folder} | {self.folder_of_target[name] for name in names if name in self.folder_of_target}


def is_of(name: str, libraries: tuple[str, ...]) -> bool:
    generated = PROTOBUF[0] in libraries and name.endswith(".pb.h")
    services = GRPC[0] in libraries and name.endswith(".grpc.pb.h")
    return name.startswith(libraries) or generated or services


def within(path: str, folders: tuple[str, ...]) -> bool:
    return any(not folder or path == folder or path.startswith(folder + "/") for folder in folders)


def check_links(tree: Tree) -> Iterator[str]:
    """No folder links what stands after it in the root file, or what it must never see."""
    for layer in tree.layers.values():
        for name, line in layer.deps.items():
            dep = tree.folder_of_target.get(name)
            where = f"{layer.folder}/CMakeLists.txt:{line}"
            if dep is None:
                continue  # a library from elsewhere; CMake itself knows whether it exists
            mine, other = tree.rank(layer.folder), tree.rank(dep)
            if mine is not None and other is not None and other > mine:
                yield f"{where}: links {name} ({dep}), which stands above {layer.folder} in the order of CMakeLists.txt"
            top = layer.folder.split("/")[0]
            if within(dep, NEVER.get(top, ())):
                yield f"{where}: links {name}: {top} must never lean on {dep}"


def check_includes(tree: Tree) -> Iterator[str]:
    """Each of our headers that a source names belongs to a folder that its own folder links."""
    for source, includes in tree.includes.items():
        folder = tree.folder_of(source)
        if folder is None:
            continue
        allowed = tree.allowed(folder, source.endswith("_test.cc") or folder.startswith("tests"))
        for include in includes:
            owner = tree.folder_of(include.name)
            if owner is not None and owner not in allowed:
                yield (
                    f"{source}:{include.line}: includes {include.name} of layer {owner}, which {folder}/CMakeLists.txt"
                    f" does not link (it may include: {', '.join(sorted(allowed))})"
                )


def check_rules(tree: Tree) -> Iterator[str]:
    """Libraries stay where RULES puts them, and those of APART meet in no source."""
    for source in tree.includes:
        reached = tree.reached(source)
        for rule in RULES:
            if not within(source, rule.folders) or within(source, rule.except_in):
                continue
            for name, (at, line) in reached.items():
                if is_of(name, rule.libraries):
                    yield f"{source}: reaches {name} (at {at}:{line}): {rule.reason}"
        firsts = [(library, next((name for name in reached if is_of(name, fronts)), "")) for library, fronts in APART]
        met = [(library, name, reached[name]) for library, name in firsts if name]
        if len(met) > 1:
            names = " and ".join(f"{library} ({name}, at {at}:{line})" for library, name, (at, line) in met)
            yield f"{source}: {names} meet in one source"


def check(root: Path) -> list[str]:
    tree = Tree(root)
    if not tree.layers or not tree.order:
        return [f"{root}: no layers found: is this the root of the project?"]
    return [*check_links(tree), *check_includes(tree), *check_rules(tree)]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    breaches = check(root)
    for breach in breaches:
        print(breach)
    print(f"check_layers: {len(breaches)} breaches" if breaches else "check_layers: every include keeps to its layer")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
