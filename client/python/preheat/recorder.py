"""PREHEAT_RECORD=DIR: every submitted program as a bundle that `compilectl warm` accepts."""

from __future__ import annotations

import logging
import os
import pathlib
import tempfile

from preheat._proto import program_pb2 as pb
from preheat.local_cache import digest


def bundle(programs: list[tuple[str, str, pb.Program]]) -> bytes:
    """(name, kind, program) as the bytes of a .preheat file."""
    message = pb.Bundle(format=1)
    for name, kind, program in programs:
        message.programs.add(name=name, kind=kind, program=program)
    return message.SerializeToString(deterministic=True)


def content(program: pb.Program) -> str:
    """A digest of what the program computes: of all but its debug information."""
    plain = pb.Program()
    plain.CopyFrom(program)
    plain.ClearField("debug_info")
    return digest(plain.SerializeToString(deterministic=True))


def record(folder: str, kind: str, program: pb.Program) -> None:
    """Writes the program under the name of its content, so that ranks may share a folder. "" records nothing."""
    if not folder:
        return
    name = f"{kind}-{content(program)[:16]}"
    path = pathlib.Path(folder) / f"{name}.preheat"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as aside:
            aside.write(bundle([(name, kind, program)]))
        os.replace(aside.name, path)
    except OSError as error:
        logging.getLogger("preheat").warning("preheat: %s was not recorded: %s", path, error)
