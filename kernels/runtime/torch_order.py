"""Multiplies by the runtime in a process that has torch too, loaded in the order that is asked for.

torch exports symbols of its own oneDNN; the runtime's must not meet them. Called by runtime_test.cc:
torch_order.py LIBRARY PLAN torch-first|runtime-first
"""

from __future__ import annotations

import ctypes
import sys


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
    ]


F32 = 8
N = 64


def load_runtime(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    for name in ("preheat_executable_load", "preheat_bind", "preheat_session_run"):
        getattr(library, name).restype = ctypes.c_void_p
    library.preheat_status_message.restype = ctypes.c_char_p
    return library


def check(library: ctypes.CDLL, status: int | None) -> None:
    if status:
        raise SystemExit(library.preheat_status_message(ctypes.c_void_p(status)).decode())


def square(values: list[float]) -> tuple[Tensor, object]:
    memory = (ctypes.c_float * (N * N))(*values)
    sizes, strides = (ctypes.c_int64 * 2)(N, N), (ctypes.c_int64 * 2)(N, 1)
    return Tensor(ctypes.addressof(memory), F32, 2, sizes, strides, 0, 0), memory


def multiply(library: ctypes.CDLL, plan: bytes, a: list[float], b: list[float]) -> list[float]:
    executable, session = ctypes.c_void_p(), ctypes.c_void_p()
    check(
        library,
        library.preheat_executable_load(
            plan, ctypes.c_size_t(len(plan)), None, ctypes.c_size_t(0), None, ctypes.byref(executable)
        ),
    )
    check(library, library.preheat_bind(executable, None, ctypes.byref(session)))
    (left, _keep_a), (right, _keep_b), (result, memory) = square(a), square(b), square([0.0] * (N * N))
    inputs, outputs = (Tensor * 2)(left, right), (Tensor * 1)(result)
    check(library, library.preheat_session_run(session, inputs, ctypes.c_size_t(2), outputs, ctypes.c_size_t(1), None))
    return list(memory)


def main() -> None:
    path, plan_path, order = sys.argv[1:]
    if order == "runtime-first":
        library = load_runtime(path)
        import torch
    else:
        import torch

        library = load_runtime(path)
    torch.manual_seed(0)
    a, b = torch.randn(N, N), torch.randn(N, N)
    convolved = torch.nn.functional.conv2d(torch.ones(1, 8, 8, 8), torch.ones(8, 8, 3, 3))  # by torch's own oneDNN
    if not torch.equal(convolved, torch.full_like(convolved, 72.0)):
        raise SystemExit("torch's convolution is wrong beside the runtime")
    with open(plan_path, "rb") as file:
        got = multiply(library, file.read(), a.flatten().tolist(), b.flatten().tolist())
    error = (torch.tensor(got).reshape(N, N).double() - a.double() @ b.double()).abs().max().item()
    with open("/proc/self/maps") as maps:
        if "libpreheat_onednn.so" not in maps.read():
            raise SystemExit("the runtime has not opened its oneDNN")
    if not error < 1e-4:
        raise SystemExit(f"the product is wrong by {error}")


main()
