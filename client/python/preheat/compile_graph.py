"""One functional ATen graph, compiled by the service or run eagerly."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from preheat import breaker, collectives, counts, padding, pieces, program, recorder
from preheat._proto import compile_pb2
from preheat.boundary import Boundary, overwritten_arguments
from preheat.built_program import BuiltProgram
from preheat.client import Client
from preheat.compiled_graph import CompiledGraph
from preheat.config import ATTENTION_OF_GPUS, Config
from preheat.errors import PreheatError, Unsupported
from preheat.fallback import eager_of, fall_back, misfit, warn_once

logger = logging.getLogger("preheat")

# Codes of errors that are this process's or its server's: every graph would run eagerly. Some kinds are one graph's.
_NO_SERVICE = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "UNAUTHENTICATED", "PERMISSION_DENIED"}
_OF_A_GRAPH = {"failed_verification", "task_deadline"}
_REFUSED_BY_LIBRARIES = {"unsupported_library_call", "no_cudnn", "no_cublaslt"}
# What libraries are called for, in the words of their errors. What they refuse stays torch's.
_CALLS = {
    "attention": ATTENTION_OF_GPUS,
    "convolution": {"aten.convolution", "aten.convolution_backward"},
    "product": {f"aten.{name}" for name in ("mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot")},
}
_RESULTS = {compile_pb2.HIT: "hit", compile_pb2.COMPILED: "compiled", compile_pb2.COALESCED: "coalesced"}


def compile_graph(
    gm: fx.GraphModule, kind: str, config: Config, boundary: Boundary | None = None
) -> Callable[..., Any]:
    """The graph as a boxed callable: compiled by the service, else eager. Raises only if PREHEAT_REQUIRED."""
    start = time.monotonic()
    eager = eager_of(gm)
    try:
        return _compile(gm, kind, config, boundary, eager, start)
    except Unsupported as reason:
        return fall_back(gm, kind, str(reason), eager, start)
    except PreheatError as error:
        if config.required and error.code in _NO_SERVICE and error.kind not in _OF_A_GRAPH:
            raise
        if error.kind in ("unreachable", "deadline"):
            breaker.shared.trip(config.server, error)
            warn_once(f"server:{config.server}", f"{error}. This process goes on with eager kernels.")
            return fall_back(gm, kind, error.kind, eager, start, warn=False)
        return fall_back(gm, kind, str(error), eager, start)
    except Exception as error:  # a bug of ours must not stop a job
        logger.exception("preheat: compiling a %s graph failed", kind)
        return fall_back(gm, kind, f"{type(error).__name__}: {error}", eager, start)


def _compile(
    gm: fx.GraphModule, kind: str, config: Config, boundary: Boundary | None, eager: Callable[..., Any], start: float
) -> Callable[..., Any]:
    # Torch compiles under its tracing modes, in which even reading a constant would be recorded.
    with _disable_current_modes():
        collectives.settle(gm.graph)
        kinds, names = boundary.of(gm) if boundary is not None else ([], [])
        try:
            frozen = config.freeze and kind == "inference"
            built = program.build(gm, kinds, frozen, names, overwritten_arguments(gm) if kind == "forward" else None)
        except Unsupported:
            if (cut := pieces.cut(gm)) is None:
                raise
            return _in_pieces(cut, kind, config, boundary)
        if not built.proto.nodes:
            _record_empty(built, kind, start, boundary)
            return eager
        return submit(kind, config, built, eager, start)


def _in_pieces(cut: pieces.Cut, kind: str, config: Config, boundary: Boundary | None) -> Callable[..., Any]:
    runs = [compile_graph(piece.graph, kind, config, boundary) for piece in cut.pieces()]
    by_torch = collections.Counter(str(node.target) for node in cut.by_torch())
    counts.add_extern_ops(by_torch)
    logger.info("preheat: %s graph in %d pieces, between which torch runs %s", kind, len(runs), ", ".join(by_torch))
    return pieces.Pieces(cut, runs)


def submit(
    kind: str, config: Config, built: BuiltProgram, eager: Callable[..., Any], start: float
) -> Callable[..., Any]:
    recorder.record(config.record, kind, built.proto)
    breaker.shared.check(config.server)
    return _fetch(kind, config, built, eager, start)


def _record_empty(built: BuiltProgram, kind: str, start: float, boundary: Boundary | None) -> None:
    """A graph with nothing to compute: arguments come back, or constants, or nothing that its operators gave."""
    aliases = sum(result.kind == "argument" for result in built.results)
    native = {"aten.alias.default": aliases} if aliases else dict(boundary.operators if boundary is not None else {})
    counts.record(counts.Graph("", kind, "empty", time.monotonic() - start, native_ops=native))


def _fetch(
    kind: str, config: Config, built: BuiltProgram, eager: Callable[..., Any], start: float
) -> Callable[..., Any]:
    if config.buckets and built.symbols:
        try:
            if kind != "inference":
                raise padding.Unsafe("gradients add up over the padding")
            plan = padding.plan(built, config.buckets)
        except padding.Unsafe as reason:
            warn_once(f"buckets:{reason}", f"a {kind} graph is not padded and takes every size as it is: {reason}")
        else:
            return padding.Padded(built, plan, functools.partial(_fetch_late, kind, config, built, eager))
    return _fetch_one(kind, config, built, eager, start)


def _fetch_late(
    kind: str, config: Config, built: BuiltProgram, eager: Callable[..., Any], dims: Mapping[str, int]
) -> Callable[..., Any]:
    """While the job runs: a server that does not answer then costs speed alone."""
    try:
        return _fetch_one(kind, config, built, eager, time.monotonic(), dims)
    except PreheatError as error:
        if config.required:
            raise
        misfit(str(error))
        return eager


def _fetch_one(
    kind: str,
    config: Config,
    built: BuiltProgram,
    eager: Callable[..., Any],
    start: float,
    dims: Mapping[str, int] | None = None,
) -> CompiledGraph:
    """The artifact for the program, with some of its symbols fixed; without operators whose libraries refuse them."""
    operators = {node.op.rpartition(".")[0] for node in built.proto.nodes}
    families = {what: ops for what, family in _CALLS.items() if (ops := operators & family) - set(config.exclude)}
    while True:
        try:
            return _fetch_as_it_is(kind, config, built, eager, start, dims)
        except PreheatError as error:
            if error.kind not in _REFUSED_BY_LIBRARIES or not families:
                raise
            what = next((word for word in families if word in str(error)), next(iter(families)))
            ops = families.pop(what)
            warn_once(f"{what}:{error}", f"{what} of a {kind} graph: left to torch: {error}")
            config = dataclasses.replace(config, exclude=tuple(sorted({*config.exclude, *ops})))


def _fetch_as_it_is(
    kind: str,
    config: Config,
    built: BuiltProgram,
    eager: Callable[..., Any],
    start: float,
    dims: Mapping[str, int] | None,
) -> CompiledGraph:
    client = Client(config)
    result = client.request(
        built.proto, name=f"{kind}:{len(built.proto.nodes)}", freeze=config.freeze and kind == "inference", dims=dims
    )
    on_gpu = torch.cuda.device(built.device) if built.device.type == "cuda" else contextlib.nullcontext()
    with on_gpu:
        called = padding.fixed(built, dims) if dims else built
        compiled = CompiledGraph(called, client.load(result), eager, misfit, f"preheat {kind} {result.key[:8]}")
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
