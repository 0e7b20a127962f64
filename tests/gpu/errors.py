"""Bad input on a GPU: each case must give its typed error, and what ran before must run right after it.

errors.py        (a server in PREHEAT_SERVER)      prints a line a case; fails if one is not as it must be
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch
from preheat import program, runtime
from preheat.client import Client
from preheat.config import Config
from preheat.errors import PreheatError
from torch.fx.experimental.proxy_tensor import make_fx

ROWS, COLUMNS = 64, 128


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1) * 2


def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.index_select(0, index) + 1


def session_of(client: Client, fn: Callable[..., Any], *args: torch.Tensor) -> runtime.Session:
    built = program.build(make_fx(fn, tracing_mode="fake")(*args))
    return client.load(client.request(built.proto)).bind()


class Cases:
    def __init__(self) -> None:
        self.client = Client(Config.make({}))
        self.x = torch.randn(ROWS, COLUMNS, device="cuda")
        self.w = torch.randn(COLUMNS, ROWS, device="cuda")
        self.session = session_of(self.client, model, self.x, self.w)
        self.failed = 0

    def works(self) -> str:
        """Whether the context is as good as before: '' or what is wrong."""
        try:
            for _ in range(3):  # step by step, recorded, started
                (result,) = self.session.run([self.x, self.w])
            torch.cuda.synchronize()
            torch.testing.assert_close(result, model(self.x, self.w), rtol=1e-3, atol=1e-3)
            return ""
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:200]

    def expect(self, name: str, kinds: str, call: Callable[[], Any]) -> None:
        """`kinds`: of the error, any of them; "" where none may come."""
        found = "no error"
        try:
            call()
            torch.cuda.synchronize()
        except PreheatError as error:
            found = error.kind
        except Exception as error:
            found = f"{type(error).__name__}: {error}"[:200]
        after = self.works()
        right = found in (kinds.split() or ["no error"]) and not after
        self.failed += not right
        print(f"{'ok' if right else 'WRONG'}  {name}: {found}{'; afterwards ' + after if after else ''}", flush=True)


def boundary(cases: Cases) -> None:
    run, x, w = cases.session.run, cases.x, cases.w
    shifted = torch.empty(x.numel() + 1, device="cuda")[1:].view_as(x).copy_(x)
    cases.expect("a tensor on the CPU", "layout_mismatch", lambda: run([x.cpu(), w]))
    cases.expect("another dtype", "dtype_mismatch", lambda: run([x.half(), w]))
    cases.expect("another shape", "shape_mismatch", lambda: run([x[:7], w]))
    cases.expect("another rank", "shape_mismatch", lambda: run([x[None], w]))
    cases.expect("other strides", "layout_mismatch", lambda: run([x.t().contiguous().t(), w]))
    cases.expect("4 bytes beside its alignment", "layout_mismatch", lambda: run([shifted, w]))
    cases.expect("too few inputs", "input_count", lambda: run([x]))
    cases.expect("a result on the CPU", "layout_mismatch",
                 lambda: cases.session.run_into([x, w], [torch.empty(ROWS, ROWS)]))  # fmt: skip
    if torch.cuda.device_count() > 1:
        cases.expect("another GPU", "layout_mismatch", lambda: run([x.to("cuda:1"), w]))


def indices(cases: Cases) -> None:
    good = torch.tensor([3, 1], device="cuda")
    session = session_of(cases.client, pick, cases.x, good)

    def outside() -> None:
        session.run([cases.x, good + ROWS])
        torch.cuda.synchronize()  # the device says so in the next call: nothing waits in a run
        session.run([cases.x, good])

    cases.expect("an index out of range", "index_out_of_range", outside)
    cases.expect("the same session with good indices", "", lambda: check_pick(session, cases.x, good))


def check_pick(session: runtime.Session, x: torch.Tensor, index: torch.Tensor) -> None:
    (result,) = session.run([x, index])
    torch.testing.assert_close(result, pick(x, index))


def architectures(cases: Cases) -> None:
    other = Client(Config.make({"target": "cuda:sm_80"}))
    cases.expect(
        "an artifact for another architecture", "unsupported_gpu", lambda: session_of(other, model, cases.x, cases.w)
    )
    unknown = Client(Config.make({"target": "cuda:sm_35"}))
    cases.expect("an architecture that nobody serves", "unsupported_target no_worker_for_target",
                 lambda: session_of(unknown, model, cases.x, cases.w))  # fmt: skip


def memory(cases: Cases) -> None:
    """A plan whose workspace is larger than any GPU: 2^18 by 2^19 sums that a matrix product reads."""
    a, b, v = (torch.randn(n, device="cuda", dtype=torch.bfloat16) for n in (1 << 18, 1 << 19, 1 << 23))

    def large(a: torch.Tensor, b: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.tanh(a[:, None] + b[None, :]) @ v.view(1 << 19, 16)

    for time in ("", ", once more"):  # already when it is bound
        cases.expect(f"too little memory{time}", "out_of_memory",
                     lambda: session_of(cases.client, large, a, b, v).run([a, b, v]))  # fmt: skip
    small = torch.randn(1 << 20, device="cuda")
    cases.expect("torch's allocator afterwards", "", lambda: (small * 2).sum().item())


def libraries(cases: Cases) -> None:
    """Processes in which a library of NVIDIA's is not to be found: the kind is in what they print."""
    for variable, kind in (("PREHEAT_CUBLASLT", "no_cublaslt"), ("PREHEAT_CUDNN", "no_cudnn")):
        done = subprocess.run([sys.executable, __file__, kind], env=os.environ | {variable: "/nowhere.so"},
                              capture_output=True, text=True)  # fmt: skip
        found = kind if kind in done.stdout + done.stderr else (done.stdout + done.stderr)[-300:] or "no error"
        cases.failed += found != kind
        print(f"{'ok' if found == kind else 'WRONG'}  {variable} without a library: {found}", flush=True)


def convolve(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.nn.functional.conv2d(x, w, padding=1)).sum((2, 3))


def without(kind: str) -> None:
    client = Client(Config.make({}))
    if kind == "no_cudnn":
        x, w = torch.randn(2, 8, 9, 9, device="cuda"), torch.randn(8, 8, 3, 3, device="cuda")
        session_of(client, convolve, x, w).run([x, w])
    else:
        x, w = torch.randn(ROWS, COLUMNS, device="cuda"), torch.randn(COLUMNS, ROWS, device="cuda")
        session_of(client, model, x, w).run([x, w])


def main() -> int:
    if len(sys.argv) > 1:
        try:
            without(sys.argv[1])
        except PreheatError as error:
            print(error.kind)
        return 0
    cases = Cases()
    print("before any error:", cases.works() or "right")
    for part in (boundary, indices, architectures, memory, libraries):
        part(cases)
    print(f"{cases.failed} wrong")
    return 1 if cases.failed else 0


if __name__ == "__main__":
    sys.exit(main())
