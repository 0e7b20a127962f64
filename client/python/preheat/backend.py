"""torch.compile(model, backend="preheat"): forward, backward and inference graphs through the service.

Whatever fails on our side costs speed, not the job: that graph runs eagerly, with a warning and a count.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from preheat import collectives, counts, padding, pieces, program, recorder, training
from preheat._proto import compile_pb2, program_pb2
from preheat.client import Client
from preheat.compiled_graph import CompiledGraph
from preheat.config import Config
from preheat.errors import PreheatError, Unsupported
from preheat.interpret import interpreter

logger = logging.getLogger("preheat")
if os.environ.get("PREHEAT_LOG"):  # "debug", "info", ...: to stderr
    logging.basicConfig(format="%(message)s")
    logger.setLevel(logging.getLevelNamesMapping().get(os.environ["PREHEAT_LOG"].upper(), logging.INFO))

_RETRY_SECONDS = 60.0  # how long a server that was not there is not asked again
# Codes of errors that are this process's or its server's: every graph would run eagerly. Some kinds are one graph's.
_NO_SERVICE = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "UNAUTHENTICATED", "PERMISSION_DENIED"}
_OF_A_GRAPH = {"failed_verification", "task_deadline"}
_RESULTS = {compile_pb2.HIT: "hit", compile_pb2.COMPILED: "compiled", compile_pb2.COALESCED: "coalesced"}


class PreheatWarning(UserWarning):
    """A graph runs eagerly, and why."""


def backend(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """What torch calls with each graph that Dynamo captured; `options` and `mode` are torch.compile's."""
    config = Config.make(kwargs.get("options"), kwargs.get("mode"))
    if config.disabled:
        return gm.forward
    _ranges.note(example_inputs)
    boundary = _Boundary(gm, example_inputs)
    start = time.monotonic()

    def compile_one(graph: fx.GraphModule, kind: str) -> Callable[..., Any]:
        run = compile_graph(graph, kind, config, boundary)
        if kind == "forward" and isinstance(run, CompiledGraph) and _takes_arguments_as_they_are(graph):
            run.signature = training.signature()
        training.note(kind, run)
        return run

    try:
        return _through_aot(gm, example_inputs, compile_one, config)
    except PreheatError:
        raise  # PREHEAT_REQUIRED
    except torch._dynamo.exc.RestartAnalysis:
        raise  # no failure: Dynamo traces the frame again, a float of the graph now a tensor
    except Exception as error:  # AOTAutograd cannot trace what eager runs: some in-place operators, for one
        return _fall_back(gm, "inference", f"AOTAutograd: {error}".partition("\n")[0][:200], gm.forward, start)


def capturing(submit: Callable[[str, program.BuiltProgram], None], refuse: Callable[[str], None]) -> Callable[..., Any]:
    """A backend that hands the programs to `submit` instead of a server, and runs everything eagerly."""

    def one(graph: fx.GraphModule, kind: str, boundary: _Boundary) -> Callable[..., Any]:
        with _disable_current_modes():
            collectives.settle(graph.graph)
            catch(graph, kind, boundary)
        return _eager(graph)

    def catch(graph: fx.GraphModule, kind: str, boundary: _Boundary) -> None:
        try:
            kinds, names = boundary.of(graph)
            overwritten = _overwritten(graph) if kind == "forward" else None
            built = program.build(graph, kinds, input_names=names, overwritten=overwritten)
            if built.proto.nodes:
                submit(kind, built)
        except Unsupported as reason:
            if (cut := pieces.cut(graph)) is None:
                return refuse(str(reason))
            for piece in cut.pieces():
                catch(piece.graph, kind, boundary)

    def capture(gm: fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        boundary = _Boundary(gm, example_inputs)
        return _through_aot(gm, example_inputs, lambda graph, kind: one(graph, kind, boundary))

    return capture


def _through_aot(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    compiler: Callable[[fx.GraphModule, str], Callable[..., Any]],
    config: Config | None = None,
) -> Callable[..., Any]:
    """Functional ATen graphs of what Dynamo captured, forward and backward apart, each through the compiler. With a
    config, what an earlier process traced comes from torch's cache."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    from preheat import aot_cache, decompositions

    cached = config is not None and aot_cache.is_on()

    def made(kind: str) -> Any:
        if cached:
            return aot_cache.serializable(lambda graph: compiler(graph, kind), kind)
        return lambda graph, _: compiler(graph, kind)

    restoring = aot_cache.used(config, functools.partial(_restore, config)) if cached else contextlib.nullcontext()  # type: ignore[arg-type]
    with restoring, training.collected() as graphs:
        compiled = aot_autograd(
            fw_compiler=made("forward"),
            bw_compiler=made("backward"),
            inference_compiler=made("inference"),
            partition_fn=min_cut_rematerialization_partition,
            decompositions=decompositions.table(),
            keep_inference_input_mutations=False,
        )(gm, example_inputs)
    return training.joined(compiled, graphs) if config is not None else compiled


def _restore(config: Config, kind: str, built: program.BuiltProgram) -> Callable[..., Any]:
    """What torch's cache kept of a graph, with its artifact fetched. What fails here has the graph traced again."""
    try:
        with _disable_current_modes():
            return _submit(kind, config, built, interpreter(built), time.monotonic())
    except PreheatError as error:
        if error.kind in ("unreachable", "deadline"):
            _breaker.trip(config.server, error)  # it is not to be waited for again
        raise


class _Boundary:
    """What Dynamo knows of the arguments: which are parameters or buffers, and what the source calls them."""

    def __init__(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        self.kinds: list[program_pb2.Input.Kind] = []
        self.names: list[str] = []
        self.operators = collections.Counter(_spelling(n) for n in gm.graph.nodes if n.op.startswith("call_"))
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        for node, example in zip(placeholders, example_inputs, strict=False):
            source = getattr(node.meta.get("grapharg"), "source", None)
            name = getattr(source, "name", None)
            self.names.append(str((name() if callable(name) else name) or node.name))
            self.kinds.append(_kind(example, self.names[-1]))

    def of(self, gm: fx.GraphModule) -> tuple[list[program_pb2.Input.Kind], list[str]]:
        """Kinds and names of an AOTAutograd graph's placeholders."""
        kinds, names = [], []
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                index = _dynamo_index(node)
                known = index is not None and index < len(self.kinds)
                kinds.append(self.kinds[index] if known else program_pb2.Input.USER)  # type: ignore[index]
                names.append(self.names[index] if known else node.name)  # type: ignore[index]
        return kinds, names


def _kind(example: Any, name: str) -> program_pb2.Input.Kind:
    if isinstance(example, torch.nn.Parameter):
        return program_pb2.Input.PARAMETER
    return program_pb2.Input.BUFFER if "._buffers[" in name else program_pb2.Input.USER


def _spelling(node: fx.Node) -> str:
    """A node of Dynamo's graph, before it is one of ATen: "getattr.T", "tanh"."""
    name = getattr(node.target, "__name__", None) or str(node.target)
    return f"getattr.{node.args[1]}" if node.target is getattr else name


def _takes_arguments_as_they_are(gm: fx.GraphModule) -> bool:
    """Whether an AOTAutograd graph has the arguments of Dynamo's graph, in order: none joined, none made of others."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    return [_dynamo_index(n) for n in placeholders] == list(range(len(placeholders)))


def _overwritten(gm: fx.GraphModule) -> program.Overwritten | None:
    """What torch writes to once a forward graph has run. The graph's last results are kept for backward, where an
    argument must be what it was: eager has computed with it, where the graph may leave that to backward."""
    tracing = torch._guards.TracingContext.try_get()
    meta = getattr(tracing, "fw_metadata", None)
    if meta is None or not meta.mutated_inp_runtime_indices:
        return None
    written, found = set(meta.mutated_inp_runtime_indices), set()
    for i, node in enumerate(n for n in gm.graph.nodes if n.op == "placeholder"):
        desc = node.meta.get("desc")
        while hasattr(desc, "base"):  # a part of a tensor subclass
            desc = desc.base
        if getattr(desc, "idx", None) in written:
            found.add(i)
    return program.Overwritten(meta.num_forward, frozenset(found))


def _dynamo_index(node: fx.Node) -> int | None:
    """The argument of Dynamo's graph that this placeholder is, when it is one as it stands."""
    desc = node.meta.get("desc")
    if type(desc).__name__ == "PlainAOTInput":
        return desc.idx
    return None


def compile_graph(
    gm: fx.GraphModule, kind: str, config: Config, boundary: _Boundary | None = None
) -> Callable[..., Any]:
    """The graph as a boxed callable: compiled by the service, else eager. Raises only if PREHEAT_REQUIRED."""
    start = time.monotonic()
    eager = _eager(gm)
    try:
        return _compile(gm, kind, config, boundary, eager, start)
    except Unsupported as reason:
        return _fall_back(gm, kind, str(reason), eager, start)
    except PreheatError as error:
        if config.required and error.code in _NO_SERVICE and error.kind not in _OF_A_GRAPH:
            raise
        if error.kind in ("unreachable", "deadline"):
            _breaker.trip(config.server, error)
            _warn_once(f"server:{config.server}", f"{error}. This process goes on with eager kernels.")
            return _fall_back(gm, kind, error.kind, eager, start, warn=False)
        return _fall_back(gm, kind, str(error), eager, start)
    except Exception as error:  # a bug of ours must not stop a job
        logger.exception("preheat: compiling a %s graph failed", kind)
        return _fall_back(gm, kind, f"{type(error).__name__}: {error}", eager, start)


def _compile(
    gm: fx.GraphModule, kind: str, config: Config, boundary: _Boundary | None, eager: Callable[..., Any], start: float
) -> Callable[..., Any]:
    # Torch compiles under its tracing modes, in which even reading a constant would be recorded.
    with _disable_current_modes():
        collectives.settle(gm.graph)
        kinds, names = boundary.of(gm) if boundary is not None else ([], [])
        try:
            frozen = config.freeze and kind == "inference"
            built = program.build(gm, kinds, frozen, names, _overwritten(gm) if kind == "forward" else None)
        except Unsupported:
            if (cut := pieces.cut(gm)) is None:
                raise
            return _in_pieces(cut, kind, config, boundary)
        if not built.proto.nodes:
            _record_empty(built, kind, start, boundary)
            return eager
        return _submit(kind, config, built, eager, start)


def _in_pieces(cut: pieces.Cut, kind: str, config: Config, boundary: _Boundary | None) -> Callable[..., Any]:
    runs = [compile_graph(piece.graph, kind, config, boundary) for piece in cut.pieces()]
    by_torch = collections.Counter(str(node.target) for node in cut.by_torch())
    counts.add_extern_ops(by_torch)
    logger.info("preheat: %s graph in %d pieces, between which torch runs %s", kind, len(runs), ", ".join(by_torch))
    return pieces.Pieces(cut, runs)


def _submit(
    kind: str, config: Config, built: program.BuiltProgram, eager: Callable[..., Any], start: float
) -> Callable[..., Any]:
    recorder.record(config.record, kind, built.proto)
    _breaker.check(config.server)
    return _fetch(kind, config, built, eager, start)


def _record_empty(built: program.BuiltProgram, kind: str, start: float, boundary: _Boundary | None) -> None:
    """A graph with nothing to compute: arguments come back, or constants, or nothing that its operators gave."""
    aliases = sum(result.kind == "argument" for result in built.results)
    native = {"aten.alias.default": aliases} if aliases else dict(boundary.operators if boundary is not None else {})
    counts.record(counts.Graph("", kind, "empty", time.monotonic() - start, native_ops=native))


def _fetch(
    kind: str, config: Config, built: program.BuiltProgram, eager: Callable[..., Any], start: float
) -> Callable[..., Any]:
    if config.buckets and built.symbols:
        try:
            if kind != "inference":
                raise padding.Unsafe("gradients add up over the padding")
            plan = padding.plan(built, config.buckets)
        except padding.Unsafe as reason:
            _warn_once(f"buckets:{reason}", f"a {kind} graph is not padded and takes every size as it is: {reason}")
        else:
            return padding.Padded(built, plan, functools.partial(_fetch_late, kind, config, built, eager))
    return _fetch_one(kind, config, built, eager, start)


def _fetch_late(
    kind: str, config: Config, built: program.BuiltProgram, eager: Callable[..., Any], dims: Mapping[str, int]
) -> Callable[..., Any]:
    """While the job runs: a server that does not answer then costs speed alone."""
    try:
        return _fetch_one(kind, config, built, eager, time.monotonic(), dims)
    except PreheatError as error:
        if config.required:
            raise
        _misfit(str(error))
        return eager


def _fetch_one(
    kind: str,
    config: Config,
    built: program.BuiltProgram,
    eager: Callable[..., Any],
    start: float,
    dims: Mapping[str, int] | None = None,
) -> CompiledGraph:
    """The artifact for the program, with some of its symbols fixed."""
    client = Client(config)
    result = client.request(
        built.proto, name=f"{kind}:{len(built.proto.nodes)}", freeze=config.freeze and kind == "inference", dims=dims
    )
    on_gpu = torch.cuda.device(built.device) if built.device.type == "cuda" else contextlib.nullcontext()
    with on_gpu:
        called = padding.fixed(built, dims) if dims else built
        compiled = CompiledGraph(called, client.load(result), eager, _misfit, f"preheat {kind} {result.key[:8]}")
    _record(kind, client, result, start)
    return compiled


def _record(kind: str, client: Client, result: compile_pb2.CompileResult, start: float) -> None:
    fused = client.report(result)
    graph = counts.Graph(
        key=result.key,
        kind=kind,
        result=_RESULTS.get(result.result, "hit"),
        seconds=time.monotonic() - start,
        kernels_before=fused.kernels_before,
        kernels_after=fused.kernels_after,
        native_ops=dict(fused.native_ops),
        extern_ops={e.op: e.count for e in fused.extern_calls},
    )
    s = result.manifest.seconds
    spared = getattr(s, "import") + s.passes + s.codegen + s.compile + s.tune
    counts.record(graph, 0.0 if graph.result == "compiled" else spared)
    logger.info(
        "preheat: %s graph %s: %s in %.2f s, kernels %d -> %d",
        kind, result.key[:12], graph.result, graph.seconds, graph.kernels_before, graph.kernels_after,
    )  # fmt: skip


# --- Without the service ---


def _eager(gm: fx.GraphModule) -> Callable[[list[Any]], Any]:
    from functorch.compile import make_boxed_func

    states = [i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder") if program.is_state(n)]
    if not states:
        return make_boxed_func(gm.forward)

    def forward(*args: Any) -> Any:  # a compiled forward graph gives random states as int64
        given = list(args)
        for i in states:
            given[i] = given[i].view(torch.uint64)
        return gm.forward(*given)

    return make_boxed_func(forward)


def _fall_back(
    gm: fx.GraphModule, kind: str, reason: str, eager: Callable[..., Any], start: float, warn: bool = True
) -> Callable[..., Any]:
    ops = collections.Counter(str(n.target) for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload))
    count = sum(n for op, n in ops.items() if op not in program._VIEWS)
    logger.info("preheat: %s graph: eager: %s", kind, reason)
    counts.record(counts.Graph("", kind, "eager", time.monotonic() - start, count, count, {}, dict(ops), reason))
    counts.count_fallback(reason)
    if warn:
        _warn_once(reason, f"a {kind} graph runs eagerly: {reason}")
    return eager


def _misfit(reason: str) -> None:
    counts.count_fallback(reason)
    _warn_once(f"call:{reason[:40]}", f"a compiled graph was called eagerly: {reason}")


_warned: set[str] = set()
_warned_lock = threading.Lock()


def _warn_once(topic: str, message: str) -> None:
    with _warned_lock:
        if topic in _warned:
            return
        _warned.add(topic)
    with contextlib.suppress(PreheatWarning):  # where warnings are errors, the job goes on all the same
        warnings.warn(f"preheat: {message}", PreheatWarning, stacklevel=2)


class _Ranges:
    """Says once for each frame that sizes outside the range of an artifact had it compiled again."""

    def __init__(self) -> None:
        self._ranged: dict[Any, Any] = {}  # frame -> its compilation that first gave a range; None: that was said

    def note(self, example_inputs: Sequence[Any]) -> None:
        known = torch._guards.CompileContext.current_compile_id()
        if known is None:
            return
        frame, compilation = known.frame_id, known.frame_compile_id
        if not compilation:
            self._ranged.pop(frame, None)  # Dynamo counts anew after a reset
        if frame not in self._ranged:
            if any(isinstance(x, torch.SymInt) for x in example_inputs):
                self._ranged[frame] = compilation
        elif self._ranged[frame] not in (None, compilation):  # one compilation may hand over several graphs
            self._ranged[frame] = None
            logger.warning(
                "preheat: frame %s is compiled again: a call does not fit the artifact for a range of sizes "
                "(TORCH_LOGS=recompiles says why)",
                frame,
            )


_ranges = _Ranges()


class _Breaker:
    """A server that could not be reached is left alone for a while, so that each graph does not wait for it again."""

    def __init__(self) -> None:
        self._down: dict[str, tuple[float, PreheatError]] = {}

    def trip(self, server: str, error: PreheatError) -> None:
        self._down.setdefault(server, (time.monotonic() + _RETRY_SECONDS, error))

    def check(self, server: str) -> None:
        until, error = self._down.get(server, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise error
        self._down.pop(server, None)


_breaker = _Breaker()
