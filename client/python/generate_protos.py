"""Writes preheat/_proto/*_pb2.py from proto/preheat/v1/*.proto with protoc. The installation and the build run it."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE.parent.parent / "proto" / "preheat" / "v1"
TARGET = HERE / "preheat" / "_proto"


def main() -> None:
    sources = sorted(PROTOS.glob("*.proto"))
    if not sources and (TARGET / "program_pb2.py").exists():
        return  # a source distribution: they were generated when it was made
    protoc = shutil.which("protoc")
    if protoc is None:
        raise SystemExit("protoc was not found: install protobuf-compiler")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([protoc, "-I", str(PROTOS.parents[2]), "--python_out", folder, *map(str, sources)], check=True)
        TARGET.mkdir(exist_ok=True)
        for file in pathlib.Path(folder).rglob("*_pb2.py"):
            # protoc names modules by the path of the .proto file; in the package they are siblings.
            text = re.sub(r"(?m)^from proto\.preheat\.v1 import", "from preheat._proto import", file.read_text())
            write_if_changed(TARGET / file.name, text)
        write_if_changed(TARGET / "__init__.py", "")


def write_if_changed(path: pathlib.Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    aside = path.with_suffix(".tmp")
    aside.write_text(text)
    aside.replace(path)


if __name__ == "__main__":
    main()
