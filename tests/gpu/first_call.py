"""First calls in fresh processes: Inductor's and ours, each without and with what an earlier process left behind.

    first_call.py --suite suite.py [--dtype bfloat16] NAME...

cold: empty caches on disk, for Preheat also a server that has compiled nothing. warm: the same folders and server once
more, in a new process. A call is measured from torch.compile to its results, imports of the backend's own included;
torch, the model and its weights are there before. Prints a line of JSON for each workload.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent


def child(options: argparse.Namespace) -> None:
    import run_suite
    import torch

    item = run_suite.load_suite(options.suite)[options.names[0]]
    work = run_suite.Workload(item, getattr(torch, options.dtype), options.scale, options.device)
    work.results(work.module)  # eager's own first call: cuBLAS handles, kernels of torch's
    run_suite.synchronize()
    if options.profile:
        import cProfile

        profile = cProfile.Profile()
        profile.enable()
    begin = time.perf_counter()
    work.results(run_suite.compiled(work.module, options.child))
    run_suite.synchronize()
    print(json.dumps({"seconds": round(time.perf_counter() - begin, 2)}))
    if options.profile:
        profile.disable()
        profile.dump_stats(options.profile)


def run(options: argparse.Namespace, name: str, backend: str, environment: dict[str, str]) -> Any:
    command = [sys.executable, __file__, "--suite", options.suite, "--dtype", options.dtype, "--scale", options.scale]
    command += ["--device", options.device, "--child", backend, name]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])["seconds"]


def inductor(options: argparse.Namespace, name: str, folder: str) -> dict[str, Any]:
    caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
    return {f"inductor_{kind}_s": run(options, name, "inductor", caches) for kind in ("cold", "warm")}


def preheat(options: argparse.Namespace, name: str, folder: str) -> dict[str, Any]:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = ["compilectl", "server"]
    data = ["--data-dir", f"{folder}/server"]
    workers = ["--workers", str(options.workers)]
    ports = ["--port", str(port), "--http-port", str(port + 1)]
    subprocess.run([*server, "start", *data, *ports, *workers], check=True, stdout=subprocess.DEVNULL)
    environment = {"PREHEAT_SERVER": f"localhost:{port}", "PREHEAT_CACHE_DIR": f"{folder}/preheat",
                   "TORCHINDUCTOR_CACHE_DIR": f"{folder}/aot", "PREHEAT_REQUIRED": "1"}  # fmt: skip
    try:
        return {f"preheat_{kind}_s": run(options, name, "preheat", environment) for kind in ("cold", "warm")}
    finally:
        subprocess.run([*server, "stop", *data], stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--scale", default="full")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--profile", default="", help="with --child: cProfile's record of the call, written there")
    parser.add_argument("--child", default="", help="only this backend's first call, in this process")
    parser.add_argument("--backends", default="inductor,preheat")
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    if options.child:
        return child(options)
    for name in options.names:
        row: dict[str, Any] = {"name": name, "dtype": options.dtype}
        for backend in options.backends.split(","):
            with tempfile.TemporaryDirectory() as folder:
                row.update((inductor if backend == "inductor" else preheat)(options, name, folder))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
