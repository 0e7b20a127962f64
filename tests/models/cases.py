"""Writes one exported program with its inputs and what eager computes from them.

A case is a folder: model.json (torch.export's own), case.json and data.bin. case.json holds
{"inputs": [tensor], "after": {"3": tensor}, "outputs": [tensor or null], "constants": {"name": tensor}, "dims": {...}},
where a tensor is {"dtype", "shape", "offset"} into data.bin: dense, row-major, little endian. `inputs` stand in
the order of the signature, constants left out; `after` are the inputs that the program changes; `outputs` are the
program's own, integers as 0-d i64.
"""

from __future__ import annotations

import copy
import io
import json
import pathlib
import zipfile
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

DTYPES = {
    torch.bool: "bool",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}
MAX_CONSTANT_BYTES = 4096


class Writer:
    """Appends tensors to data.bin."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, value: torch.Tensor) -> dict[str, Any]:
        entry = {"dtype": DTYPES[value.dtype], "shape": list(value.shape), "offset": len(self.data)}
        dense = value.detach().cpu().contiguous().reshape(-1)
        self.data += dense.view(torch.uint8).numpy().tobytes()
        return entry


def model_json(archive: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(archive)) as unzipped:
        name = next(n for n in unzipped.namelist() if "/models/" in n and n.endswith(".json"))
        return unzipped.read(name).decode()


def input_tensors(program: torch.export.ExportedProgram, args: tuple[Any, ...]) -> list[tuple[str, torch.Tensor]]:
    """(kind, value) of every tensor input, in the order of the signature; a constant's kind is its name."""
    users = iter(pytree.tree_leaves(args))
    tensors: list[tuple[str, torch.Tensor]] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            value = next(users)
            if isinstance(value, torch.Tensor):
                tensors.append(("user", value))
            elif isinstance(value, int) and not isinstance(value, bool):
                tensors.append(("size", torch.tensor(value)))
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            tensors.append((spec.target, program.constants[spec.target]))
        else:
            known = program.state_dict if spec.target in program.state_dict else program.constants
            tensors.append(("state", known[spec.target]))
    return tensors


def saved(program: torch.export.ExportedProgram) -> bytes:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def write_model(folder: pathlib.Path, archive: bytes) -> None:
    """Only what an importer reads: nothing is computed with it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(model_json(archive))
    (folder / "case.json").write_text(json.dumps({"constants": {}, "dims": {}}))


def write_case(
    folder: pathlib.Path,
    model: torch.nn.Module,
    program: torch.export.ExportedProgram,
    args: tuple[Any, ...],
    dims: dict[str, int] | None = None,
) -> None:
    """The program, args for one run of it, and what the model makes of them; dims names sizes to bind."""
    writer = Writer()
    case: dict[str, Any] = {"inputs": [], "after": {}, "outputs": [], "constants": {}, "dims": dims or {}}
    live_model, live_args = copy.deepcopy(model), copy.deepcopy(args)
    state = {**dict(live_model.named_parameters()), **dict(live_model.named_buffers())}
    before = input_tensors(program, args)
    targets = [spec.target for spec in program.graph_signature.input_specs]
    with torch.no_grad():
        outputs = live_model(*live_args)
    after_user = iter([a for a in pytree.tree_leaves(live_args) if isinstance(a, torch.Tensor)])
    for (kind, value), target in zip(before, targets, strict=True):
        if kind not in ("user", "size", "state") and value.numel() * value.element_size() <= MAX_CONSTANT_BYTES:
            case["constants"][kind] = writer.add(value)
            continue
        case["inputs"].append(writer.add(value))
        now = next(after_user) if kind == "user" else state.get(target, value)
        if not torch.equal(now.detach().nan_to_num(), value.detach().nan_to_num()):
            case["after"][str(len(case["inputs"]) - 1)] = writer.add(now)
    for output in pytree.tree_leaves(outputs):
        if isinstance(output, torch.Tensor):
            case["outputs"].append(writer.add(output))
        else:
            case["outputs"].append(writer.add(torch.tensor(output)) if isinstance(output, int) else None)
    write_model(folder, saved(program))
    (folder / "case.json").write_text(json.dumps(case))
    (folder / "data.bin").write_bytes(bytes(writer.data))
