"""The judges written for CPUs, on a GPU: models, samples and what they are compared with lie there.

judges.py zoo.py|opinfo.py [its flags]      (a server in PREHEAT_SERVER)

zoo.py and opinfo.py are scripts of a folder like shared/check; all their flags hold. Products of f32 keep f32 (TF32=1
leaves torch's setting: eager's own convolutions round to 10 bits then). CHANNELS_LAST=1: models and images lie so.
DEVICE=cpu tries this script without a GPU.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_map

DEVICE = os.environ.get("DEVICE", "cuda")


def there(value: Any) -> Any:
    return tree_map(lambda t: t.to(DEVICE) if torch.is_tensor(t) else t, value)


def move_gradients() -> None:
    """torch.autograd.grad takes gradients of outputs that were drawn on the CPU."""
    grad = torch.autograd.grad

    def moved(outputs: Any, inputs: Any, grad_outputs: Any = None, **kwargs: Any) -> Any:
        return grad(outputs, inputs, there(grad_outputs), **kwargs)

    torch.autograd.grad = moved  # type: ignore[assignment]


def move_models(zoo: ModuleType) -> None:
    for name in ("timm_model", "hf_model"):
        make: Callable[[str], tuple[torch.nn.Module, dict[str, Any]]] = getattr(zoo, name)

        def moved(
            model: str, make: Callable[[str], tuple[torch.nn.Module, dict[str, Any]]] = make
        ) -> tuple[torch.nn.Module, dict[str, Any]]:
            made, inputs = make(model)
            if os.environ.get("CHANNELS_LAST"):
                last = torch.channels_last
                made = made.to(memory_format=last)
                inputs = {k: v.contiguous(memory_format=last) if v.dim() == 4 else v for k, v in inputs.items()}
            return made.to(DEVICE), there(inputs)

        setattr(zoo, name, moved)


def move_samples() -> None:
    from torch.testing._internal.opinfo.core import OpInfo

    sample_inputs, supported = OpInfo.sample_inputs, OpInfo.supported_dtypes
    OpInfo.sample_inputs = lambda op, _, dtype, **more: sample_inputs(op, DEVICE, dtype, **more)
    OpInfo.supported_dtypes = lambda op, _: supported(op, DEVICE)


def start_workers_here(judge: ModuleType, script: Path) -> None:
    """The judge's own workers are processes of this script."""
    sweep = judge.harness.sweep

    def of_this(_: str, flags: list[str], *rest: Any) -> Iterator[dict[str, Any]]:
        os.environ["JUDGE"] = str(script)
        yield from sweep(__file__, flags, *rest)

    judge.harness.sweep = of_this


def main() -> None:
    script = Path(os.environ.get("JUDGE") or sys.argv.pop(1)).resolve()
    if DEVICE == "cuda" and not os.environ.get("TF32"):
        torch.backends.cudnn.allow_tf32 = False
    sys.path.insert(0, str(script.parent))
    judge = importlib.import_module(script.stem)
    move_gradients()
    if hasattr(judge, "timm_model"):
        move_models(judge)
    else:
        move_samples()
    start_workers_here(judge, script)
    judge.main()


if __name__ == "__main__":
    main()
