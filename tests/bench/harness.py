"""What the benchmarks of this folder share: a server of their own, and the machine in words."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import subprocess
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "release" / "bin"


@contextlib.contextmanager
def server(bin: pathlib.Path, folder: str) -> Iterator[str]:
    """The address of an empty server, from the programs in `bin`, that keeps its data in `folder`."""
    ports = []
    for _ in range(2):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
    control = [str(bin / "compilectl"), "server"]
    start = ["start", "--data-dir", f"{folder}/server", "--port", str(ports[0]), "--http-port", str(ports[1])]
    subprocess.run(control + start, check=True, capture_output=True)
    try:
        yield f"127.0.0.1:{ports[0]}"
    finally:
        subprocess.run(control + ["stop", "--data-dir", f"{folder}/server"], capture_output=True)


def machine() -> str:
    """The CPU, the threads and the torch that numbers are of."""
    import torch

    with open("/proc/cpuinfo") as info:
        model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), "unknown")
    blas = "MKL" if torch.backends.mkl.is_available() else "no MKL"
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{model}, {torch.get_num_threads()} threads; torch {torch.__version__} ({blas}, {capability})"
