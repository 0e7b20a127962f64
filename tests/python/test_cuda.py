"""Graphs on a GPU, as far as they go without one: programs of fake CUDA tensors, and kernels for one from a server."""

from __future__ import annotations

import operator
import os
import pathlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from preheat import compile_graph, program
from preheat.client import Client
from preheat.config import Config
from preheat.errors import PreheatError, Unsupported
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PREHEAT_BUILD", ROOT / "build" / "release"))


def trace(fn: Callable[..., Any], *shapes: tuple[int, ...], scalars: int = 0) -> fx.GraphModule:
    """The graph of a function of bf16 tensors on a GPU, followed by scalars on the CPU."""
    with FakeTensorMode():
        args = [torch.empty(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]
        args += [torch.empty((), dtype=torch.float64) for _ in range(scalars)]
        return make_fx(fn)(*args)


def built(fn: Callable[..., Any], *shapes: tuple[int, ...], scalars: int = 0) -> program.BuiltProgram:
    return program.build(trace(fn, *shapes, scalars=scalars))


def test_every_tensor_is_on_the_gpu() -> None:
    made = built(lambda x, s: torch.full((4, 4), 2.0, device="cuda") + x.float() * s, (4, 4), scalars=1)
    assert made.device == torch.device("cuda", 0)
    assert {v.tensor.device_type for v in made.proto.values} == {"cuda"}
    devices = [a.device for n in made.proto.nodes for a in n.arguments if a.HasField("device")]
    assert set(devices) == {"cuda"}


def test_results_on_the_cpu_are_refused() -> None:
    with pytest.raises(Unsupported, match="is on cpu, the graph runs on cuda"):
        built(lambda x: (x + 1).cpu(), (4,))


def test_tensors_on_both_are_refused() -> None:
    with FakeTensorMode():
        gm = make_fx(lambda x, i: x[i])(torch.empty(4, device="cuda"), torch.empty(2, dtype=torch.int64))
    with pytest.raises(Unsupported, match="is on the CPU, the graph computes on cuda"):
        program.build(gm)


def test_sizes_among_results_are_no_values() -> None:
    """As attention gives them: tensors, None and numbers."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    with FakeTensorMode():
        x.meta["val"] = torch.empty((2, 4, 8, 16), device="cuda", dtype=torch.bfloat16)
        call = graph.call_function(torch.ops.aten._scaled_dot_product_cudnn_attention.default, (x, x, x, None, True))
        lse, seed = torch.empty((2, 4, 8, 1), device="cuda"), torch.empty((), device="cuda", dtype=torch.int64)
        call.meta["val"] = (x.meta["val"], lse, None, None, 8, 8, seed, seed, None)
    get = operator.getitem
    results = []
    for i in (0, 1, 2, 4):
        item = graph.call_function(get, (call, i))
        item.meta["val"] = call.meta["val"][i]
        results.append(item)
    graph.output(tuple(results))
    made = program.build(fx.GraphModule(torch.nn.Module(), graph))
    assert [r.kind for r in made.results] == ["output", "output", "none", "size"]
    assert [i >= 0 for i in made.proto.nodes[0].results] == [True, True, False, False, False, False, True, True, False]


def attention_graph(consumer: Callable[[fx.Graph, fx.Node], fx.Node] | None = None) -> fx.GraphModule:
    """Flash attention as it arrives on a GPU, with its random state among the results."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    with FakeTensorMode():
        x.meta["val"] = torch.empty((2, 4, 8, 16), device="cuda", dtype=torch.bfloat16)
        call = graph.call_function(torch.ops.aten._scaled_dot_product_flash_attention.default, (x, x, x, 0.1, True))
        lse = torch.empty((2, 4, 8), device="cuda")
        state, unused = (torch.empty(n, device="cuda", dtype=torch.uint64) for n in ((2,), ()))
        call.meta["val"] = (x.meta["val"], lse, None, None, 8, 8, state, unused, x.meta["val"])
    results = []
    for i in (0, 1, 6, 7):
        item = graph.call_function(operator.getitem, (call, i))
        item.meta["val"] = call.meta["val"][i]
        results.append(item)
    if consumer is not None:
        results.append(consumer(graph, results[2]))
    graph.output(tuple(results))
    return fx.GraphModule(torch.nn.Module(), graph)


def test_the_random_state_of_flash_attention_is_carried_as_int64() -> None:
    made = program.build(attention_graph())
    assert [r.kind for r in made.results] == ["output"] * 4
    assert [t.dtype - 1 for t in made.outputs[2:]] == [5, 5]


def test_nothing_else_computes_with_a_random_state() -> None:
    def consumer(graph: fx.Graph, state: fx.Node) -> fx.Node:
        made = graph.call_function(torch.ops.aten.bitwise_and.Scalar, (state, 1))
        made.meta["val"] = state.meta["val"]
        return made

    with pytest.raises(Unsupported, match="bitwise_and.Scalar computes with torch.uint64"):
        program.build(attention_graph(consumer))


# --- Through a server ---


def compilectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BUILD / "bin" / "compilectl"), *arguments], capture_output=True, text=True, timeout=120)


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    data, port = str(tmp_path_factory.mktemp("server")), free_port()
    started = compilectl("server", "start", "--data-dir", data, "--port", port, "--http-port", free_port())
    assert started.returncode == 0, started.stderr
    yield Client(Config.make({"server": f"localhost:{port}", "target": "cuda:sm_90"}))
    compilectl("server", "stop", "--data-dir", data)


def test_a_worker_without_a_gpu_compiles_for_one(client: Client) -> None:
    made = built(lambda x, y: torch.softmax(x @ y, -1) * 2, (64, 32), (32, 64))
    try:
        result = client.request(made.proto)
    except PreheatError as error:
        if error.kind != "no_worker_for_target":
            raise
        pytest.skip("no NVRTC here: no worker compiles for GPUs")
    assert result.manifest.target == "cuda:sm_90"
    assert len(result.manifest.code) > 0
    assert all(client.read_blob(code, result)[:4] == b"\x7fELF" for code in result.manifest.code)
    assert client.request(made.proto).key == result.key


def forward_and_backward(kernel: str, causal: bool, dropout: float, masked: bool = False) -> Callable[..., Any]:
    """Attention by one of torch's three kernels, and its gradients; behind a mask of padding where it takes one."""
    aten = torch.ops.aten
    forward = getattr(aten, f"_scaled_dot_product_{kernel}_attention").default
    backward = getattr(aten, f"_scaled_dot_product_{kernel}_attention_backward").default

    def run(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, k, v = x.view(2, 40, 3, 4, 16).permute(2, 0, 3, 1, 4)
        mask = torch.where(x[:, :, 0] > 0, 0.0, -torch.inf).to(x.dtype)[:, None, None].expand(2, 4, 40, 40)
        bias = mask if masked else None
        if kernel == "flash":
            out, sums, cq, ck, mq, mk, state, unused, _ = forward(q, k, v, dropout, causal)
            return out, *backward(g, q, k, v, out, sums, cq, ck, mq, mk, dropout, causal, state, unused)
        if kernel == "efficient":
            out, sums, seed, offset = forward(q, k, v, bias, True, dropout, causal)
            wanted = [True, True, True, False]
            grads = backward(g, q, k, v, bias, out, sums, seed, offset, dropout, wanted, causal)
            return out, *grads[:3]
        out, sums, cq, ck, mq, mk, seed, offset, _ = forward(q, k, v, bias, True, dropout, causal)
        return out, *backward(g, q, k, v, out, sums, seed, offset, bias, cq, ck, mq, mk, dropout, causal)

    return run


def externs(client: Client, made: program.BuiltProgram) -> set[str]:
    return {call.op for call in client.report(client.request(made.proto)).extern_calls}


@pytest.mark.parametrize("kernel", ["cudnn", "flash", "efficient"])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_on_a_gpu_is_native(client: Client, kernel: str, causal: bool) -> None:
    made = built(forward_and_backward(kernel, causal, 0.0), (2, 40, 192), (2, 4, 40, 16))
    assert externs(client, made) == set()


@pytest.mark.parametrize(("kernel", "native"), [("cudnn", True), ("flash", False), ("efficient", False)])
def test_attention_of_any_length(client: Client, kernel: str, native: bool) -> None:
    """cuDNN makes a plan for each length, as in torch; the others' kernels need none, and stay torch's."""

    def run(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        forward = getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}_attention").default
        return forward(q, k, k)[0] if kernel == "flash" else forward(q, k, k, None, False)[0]

    mode = FakeTensorMode(shape_env=ShapeEnv())
    any_length = StatelessSymbolicContext([DimDynamic.STATIC] * 2 + [DimDynamic.DYNAMIC, DimDynamic.STATIC])
    shape = mode.from_tensor(torch.empty(2, 4, 40, 16), symbolic_context=any_length).shape
    with mode:
        q, k = (torch.empty(sizes, device="cuda", dtype=torch.bfloat16) for sizes in ((2, 4, 64, 16), shape))
        graph = make_fx(run)(q, k)
    assert (externs(client, program.build(graph)) == set()) == native


@pytest.mark.parametrize(("kernel", "native"), [("cudnn", True), ("flash", False), ("efficient", False)])
def test_attention_of_one_row(client: Client, kernel: str, native: bool) -> None:
    """As one more token has it: torch's other kernels share long keys out among blocks."""

    def run(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        forward = getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}_attention").default
        return forward(q, k, k)[0] if kernel == "flash" else forward(q, k, k, None, False)[0]

    assert (externs(client, built(run, (2, 4, 1, 16), (2, 4, 400, 16))) == set()) == native


@pytest.mark.parametrize("kernel", ["cudnn", "efficient"])
def test_attention_behind_a_mask_is_native(client: Client, kernel: str) -> None:
    made = built(forward_and_backward(kernel, False, 0.0, masked=True), (2, 40, 192), (2, 4, 40, 16))
    assert externs(client, made) == set()


@pytest.mark.parametrize("kernel", ["cudnn", "flash", "efficient"])
def test_attention_with_dropout_is_torch_s(client: Client, kernel: str) -> None:
    made = built(forward_and_backward(kernel, True, 0.1), (2, 40, 192), (2, 4, 40, 16))
    name = f"aten._scaled_dot_product_{kernel}_attention"
    assert externs(client, made) == {f"{name}.default", f"{name}_backward.default"}


def test_what_libraries_refuse_stays_torch_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where their version or the architecture has no engine for it: the rest of the graph is compiled all the same."""
    asked = []
    wanted: set[str] = set()  # to be left out
    message = "there is no engine for it"

    def fetch(_kind: str, config: Config, *_rest: Any) -> str:
        asked.append(set(config.exclude))
        if wanted <= set(config.exclude):
            return "compiled"
        raise PreheatError("UNIMPLEMENTED", "unsupported_library_call", message)

    monkeypatch.setattr(compile_graph, "_fetch_as_it_is", fetch)
    attention = {f"aten._scaled_dot_product_cudnn_attention{part}" for part in ("", "_backward")}
    made = built(forward_and_backward("cudnn", True, 0.0), (2, 40, 192), (2, 4, 40, 16))
    wanted |= attention
    with pytest.warns(match="attention of a forward graph: left to torch: .*no engine"):
        assert compile_graph._fetch_one("forward", Config.make({}), made, print, 0.0) == "compiled"
    assert asked == [set(), attention]

    def convolve(x: torch.Tensor, w: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        y = torch.ops.aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        return torch.ops.aten.mm.default(y.flatten(1), m)

    asked.clear()
    wanted |= {"aten.convolution", "aten.mm"}
    wanted -= attention
    made = built(convolve, (2, 3, 8, 8), (4, 3, 3, 3), (256, 5))
    with pytest.warns(match="product of a forward graph: left to torch"):
        assert compile_graph._fetch_one("forward", Config.make({}), made, print, 0.0) == "compiled"
    assert asked == [set(), {"aten.convolution"}, {"aten.convolution", "aten.mm"}]
    asked.clear()
    wanted -= {"aten.convolution"}
    message = "a matrix product's operand has no dense dimension"
    assert compile_graph._fetch_one("forward", Config.make({}), made, print, 0.0) == "compiled"
    assert asked == [set(), {"aten.mm"}], "what the error names goes first"
    with pytest.raises(PreheatError):  # nothing of it calls a library
        compile_graph._fetch_one("forward", Config.make({}), built(lambda x: x + 1, (8,)), print, 0.0)


def test_an_unknown_architecture_is_refused(client: Client) -> None:
    made = built(lambda x: x + 1, (8,))
    other = Client(Config.make({"server": client.config.server, "target": "cuda:sm_35"}))
    with pytest.raises(PreheatError) as refused:
        other.request(made.proto)
    assert refused.value.kind in ("unsupported_target", "no_worker_for_target")


def test_this_machine_s_gpu_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    made = built(lambda x: x + 1, (8,))
    with pytest.raises(PreheatError) as refused:
        Client(Config.make({"server": "localhost:1"})).request(made.proto)
    assert refused.value.kind == "no_cuda_driver"
