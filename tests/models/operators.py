"""Writes a case (cases.py) for each operator, in its forms and dtypes, and for each kind of mutation.

python operators.py FOLDER [--only add,sum]
"""

from __future__ import annotations

import argparse
import copy
import pathlib
import shutil
import warnings
from typing import Any

import operators_backward
import operators_layers
import operators_memory
import operators_pointwise
import operators_rare
import operators_regions
import torch
from case_tensors import Function
from cases import write_case
from torch import Tensor, nn
from torch.utils import _pytree as pytree

GROUPS = (
    *operators_pointwise.GROUPS,
    *operators_layers.GROUPS,
    *operators_memory.GROUPS,
    *operators_backward.GROUPS,
    *operators_regions.GROUPS,
    *operators_rare.GROUPS,
)


class Call(nn.Module):
    """A function of tensors as a module; buffers can be given."""

    def __init__(self, fn: Function, **buffers: Tensor) -> None:
        super().__init__()
        self.fn = fn
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args: Any) -> Any:
        return tuple(pytree.tree_leaves(self.fn(*args)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names or groups, separated by commas")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    only = set(filter(None, options.only.split(",")))
    names: set[str] = set()
    failed: list[str] = []
    for group in GROUPS:
        torch.manual_seed(1)
        for name, fn, args in group():
            assert name not in names, name
            names.add(name)
            if only and name not in only and group.__name__ not in only:
                continue
            model = fn if isinstance(fn, nn.Module) else Call(fn)
            if not any(
                isinstance(module, nn.modules.batchnorm._BatchNorm) or name == "encoder_layer"
                for module in model.modules()
            ):
                model.eval()
            try:
                program = torch.export.export(copy.deepcopy(model), args)
                write_case(options.folder / name, model, program, args)
            except Exception as error:
                failed.append(f"case {name} cannot be exported: {type(error).__name__}: {str(error).splitlines()[0]}")
    if failed:
        raise SystemExit("\n".join(failed))
    if not only:
        remove_former(options.folder, names)


def remove_former(folder: pathlib.Path, names: set[str]) -> None:
    """Cases that an earlier state of this script wrote there: the test would go on running them."""
    for case in folder.glob("*/case.json"):
        if case.parent.name not in names:
            shutil.rmtree(case.parent)


if __name__ == "__main__":
    main()
