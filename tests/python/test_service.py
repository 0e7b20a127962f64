"""torch.compile against a real server, worker and runtime, judged by eager."""

from __future__ import annotations

import json
import multiprocessing
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import preheat
import pytest
import torch
from conftest import compilectl
from preheat import client, program, runtime
from preheat._proto import compile_pb2 as pb
from preheat._proto import program_pb2
from preheat.config import Config
from torch import nn
from torch.testing import assert_close

pytestmark = pytest.mark.usefixtures("service")


def check(fn: Callable[..., Any], *args: Any, **options: Any) -> dict[str, Any]:
    """Compares with eager and gives the report, in which nothing ran eagerly."""
    want = fn(*args)
    got = torch.compile(fn, backend="preheat", **options)(*args)
    assert_close(got, want)
    report = preheat.report().to_dict()
    assert report["fallbacks"] == {}, report
    return report


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_inference_is_compiled_then_fetched() -> None:
    model = Mlp().eval()
    with torch.no_grad():
        first = check(model, torch.randn(3, 8))["graphs"]
        torch._dynamo.reset()
        second = check(model, torch.randn(3, 8))["graphs"][1:]
    assert [g["result"] for g in first + second] == ["compiled", "hit"]
    assert first[0]["key"] == second[0]["key"] and first[0]["kernels_after"] < first[0]["kernels_before"]
    assert first[0]["extern_ops"] == {} and first[0]["native_ops"]
    assert preheat.report().seconds_saved > 0


def test_what_is_stored_is_fetched_without_sending_the_program(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server knows large programs by the digest that this client's Protobuf gives them."""

    def deep(x: torch.Tensor) -> torch.Tensor:
        for i in range(200):
            x = torch.sin(x * (1 + i / 256))
        return x

    made = []
    request = preheat.Client.request

    def note(self: preheat.Client, program_: program_pb2.Program, *args: Any, **options: Any) -> pb.CompileResult:
        made.append(program_)
        return request(self, program_, *args, **options)

    monkeypatch.setattr(preheat.Client, "request", note)
    check(deep, torch.randn(3, 8))
    (deep_program,) = made
    assert deep_program.ByteSize() > client._LARGE and deep_program.debug_info.locations

    def no_program(*_: Any) -> pb.CompileRequest:
        raise AssertionError("the program was sent")

    monkeypatch.setattr(client, "_with_program", no_program)
    again = preheat.Client(Config.make({"server": service}))
    assert again.request(deep_program).result == pb.HIT
    other = program_pb2.Program()
    other.CopyFrom(deep_program)
    other.ClearField("debug_info")
    assert again.request(other).result == pb.HIT


def test_another_process_fetches(tmp_path: pathlib.Path) -> None:
    script = (
        "import json, torch, preheat\n"
        "f = torch.compile(lambda x: torch.tanh(x * 2).sum(1), backend='preheat')\n"
        "f(torch.ones(3, 5))\n"
        "print(json.dumps(preheat.report().to_dict()))\n"
    )
    results = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout.splitlines()[-1])["graphs"][0]["result"])
    assert results == ["compiled", "hit"]


def test_training_step() -> None:
    model, x = Mlp(), torch.randn(3, 8, requires_grad=True)

    def step() -> list[torch.Tensor]:
        for t in [*model.parameters(), x]:
            t.grad = None
        fast(x).pow(2).sum().backward()
        return [t.grad for t in [*model.parameters(), x]]

    fast: Any = model
    want = step()
    fast = torch.compile(model, backend="preheat")
    assert_close(step(), want)
    report = preheat.report().to_dict()
    assert [g["kind"] for g in report["graphs"]] == ["forward", "backward"] and report["fallbacks"] == {}


def test_one_artifact_for_a_range_of_sizes() -> None:
    fast = torch.compile(lambda x: torch.softmax(x * 3, dim=-1), backend="preheat", dynamic=True)
    for shape in ((3, 5), (7, 64), (2, 9)):
        x = torch.randn(shape)
        assert_close(fast(x), torch.softmax(x * 3, dim=-1))
    report = preheat.report().to_dict()
    assert len(report["graphs"]) == 1 and report["fallbacks"] == {}


def test_operators_without_a_native_form_are_extern_calls() -> None:
    a = torch.eye(4) * 3 + torch.randn(4, 4) * 0.1
    report = check(lambda x: torch.linalg.inv(x + 1) * 2, a)
    assert report["graphs"][0]["extern_ops"]


def test_random_operators_draw_as_eager_does() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x * 2, 0.5) + torch.rand_like(x)

    x = torch.ones(128)
    torch.manual_seed(5)
    want = [fn(x), torch.rand(1)]
    torch.manual_seed(5)
    assert_close([torch.compile(fn, backend="preheat")(x), torch.rand(1)], want)
    assert preheat.report().fallbacks == {}


def test_an_index_out_of_range_raises_as_in_eager() -> None:
    fast = torch.compile(lambda t, i: nn.functional.embedding(i, t) * 2, backend="preheat")
    table = torch.randn(5, 3)
    assert_close(fast(table, torch.tensor([4, 0])), table[[4, 0]] * 2)
    with pytest.raises(IndexError):
        fast(table, torch.tensor([5, 0]))


TABLE, AT = torch.randn(4, 3), torch.tensor([[0, 2, 1]])
NUMBERS, ONES, ZEROS = torch.arange(40), torch.ones(40).long(), torch.zeros(40).long()
FAILS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "floor_divide": (lambda a, b: a // b + 1, (NUMBERS, ONES), (NUMBERS, ZEROS)),
    "remainder": (lambda a, b: (a % b).sum(), (NUMBERS, ONES[0]), (NUMBERS, ZEROS[0])),
    "fmod": (torch.fmod, (NUMBERS.int(), ONES.int()), (NUMBERS.int(), ZEROS.int())),
    "trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), (NUMBERS, ONES), (NUMBERS, ZEROS)),
    "embedding": (lambda x, i: nn.functional.embedding(i, x) * 2, (TABLE, AT), (TABLE, AT - 1)),
    "index_select": (lambda x, i: x.index_select(0, i[0]) * 2, (TABLE, AT), (TABLE, AT - 1)),
    "gather": (lambda x, i: x.gather(0, i) * 2, (TABLE, AT), (TABLE, AT - 1)),
    "scatter": (lambda x, i: x.scatter(0, i, 2.0) * 2, (TABLE, AT), (TABLE, AT - 1)),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x) * 2, (TABLE, AT), (TABLE, AT - 1)),
    "index_add": (lambda x, i: x.index_add(0, i[0], x[:3]) * 2, (TABLE, AT), (TABLE, AT - 1)),
    "index_copy": (lambda x, i: x.index_copy(0, i[0], x[:3]) * 2, (TABLE, AT), (TABLE, AT - 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILS)
def test_what_eager_refuses_is_refused(name: str) -> None:
    fn, good, bad = FAILS[name]
    fast = torch.compile(fn, backend="preheat", dynamic=False)
    assert_close(fast(*good), fn(*good))
    with pytest.raises(Exception) as eager:
        fn(*bad)
    with pytest.raises(type(eager.value), match=re.escape(str(eager.value))):
        fast(*bad)
    assert_close(fast(*good), fn(*good))
    report = preheat.report().to_dict()
    assert report["fallbacks"] == {} and all(graph["extern_ops"] == {} for graph in report["graphs"])


def test_negative_indices_that_eager_takes() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> Any:
        taken = x[i], x.take(i), x.index_fill(0, i, 2.0), x.index_put((i,), x[:2])
        return *taken, x.take_along_dim(i.view(-1, 1), 0)

    x, i = torch.randn(4, 3), torch.tensor([-1, 1])
    assert_close(torch.compile(fn, backend="preheat")(x, i), fn(x, i))
    assert preheat.report().fallbacks == {}


def test_frozen_parameters_and_refresh() -> None:
    model = Mlp().eval()
    fast = torch.compile(model, backend="preheat", options={"freeze": True})
    x = torch.randn(3, 8)
    with torch.no_grad():
        assert_close(fast(x), model(x))
        for p in model.parameters():
            p.mul_(1.5)
        assert_close(fast(x), model(x))
        for p in model.parameters():
            p.data.mul_(0.5)
        preheat.refresh(model)
        assert_close(fast(x), model(x))
    assert preheat.report().fallbacks == {}


def test_a_program_through_the_client() -> None:
    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x, y: torch.mm(x, y).relu() + 1, tracing_mode="fake")(
        torch.ones(2, 3), torch.ones(3, 4)
    )
    executable = preheat.Client().compile(program.build(gm).proto, name="relu")
    x, y = torch.randn(2, 3), torch.randn(3, 4)
    assert_close(executable.bind().run([x, y]), [torch.mm(x, y).relu() + 1])
    with pytest.raises(preheat.PreheatError) as error:
        executable.bind().run([x, y.t()])
    assert error.value.kind in ("shape_mismatch", "layout_mismatch")


def test_a_runtime_that_is_too_old_is_an_error_where_preheat_is_required(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    source, old = tmp_path / "old.c", tmp_path / "libpreheat_runtime.so"
    source.write_text("unsigned preheat_runtime_abi(void) { return 1; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(old), str(source)], check=True)
    script = (
        "import torch\n"
        "f = torch.compile(lambda x: torch.tanh(x * 2).sum(1), backend='preheat')\n"
        "print(float(f(torch.ones(3, 5)).sum()))\n"
    )
    monkeypatch.setenv("PREHEAT_RUNTIME", str(old))
    for required in (True, False):
        monkeypatch.setenv("PREHEAT_REQUIRED", str(int(required)))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
        assert (done.returncode != 0) == required, done.stderr
        assert "the runtime is older than this package" in done.stderr
        assert ("[runtime_abi]" in done.stderr) and ("PreheatWarning" in done.stderr) != required


def _in_child(queue: Any) -> None:
    torch.set_num_threads(1)
    torch._dynamo.reset()
    out = torch.compile(lambda x: torch.exp(x) - 4, backend="preheat")(torch.zeros(3))
    queue.put(out.tolist())


def test_a_forked_child_works() -> None:
    check(lambda x: x * 2 + 7, torch.ones(3))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=120) == [-3.0, -3.0, -3.0]
    child.join(30)


def test_what_was_recorded_is_warmed(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "recorded"
    monkeypatch.setenv("PREHEAT_RECORD", str(folder))
    check(lambda x: torch.sigmoid(x).mean(0), torch.randn(4, 6))
    (file,) = folder.glob("*.preheat")
    answered = compilectl("--server", server, "--json", "compile", str(file))
    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout)["result"] == "hit"


@pytest.mark.parametrize("kind", [runtime.Executable, runtime.Session])
def test_what_lives_until_the_process_ends_goes_quietly(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    left = kind.__new__(kind)
    left._handle = 1
    monkeypatch.setattr(runtime, "native", None)  # as the interpreter leaves it
    left.__del__()
    left._handle = 0
