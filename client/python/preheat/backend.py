"""torch.compile(model, backend="preheat"): forward, backward and inference graphs through the service.

Whatever fails on our side costs speed, not the job: that graph runs eagerly, with a warning and a count.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from preheat import breaker, collectives, pieces, program, recompiles, training
from preheat.boundary import Boundary, overwritten_arguments, takes_arguments_as_they_are
from preheat.built_program import BuiltProgram
from preheat.compile_graph import compile_graph, submit
from preheat.compiled_graph import CompiledGraph
from preheat.config import ATTENTION_OF_GPUS, Config
from preheat.errors import PreheatError, Unsupported
from preheat.fallback import eager_of, fall_back
from preheat.interpret import interpreter

logger = logging.getLogger("preheat")
if os.environ.get("PREHEAT_LOG"):  # "debug", "info", ...: to stderr
    logging.basicConfig(format="%(message)s")
    logger.setLevel(logging.getLevelNamesMapping().get(os.environ["PREHEAT_LOG"].upper(), logging.INFO))


def backend(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """What torch calls with each graph that Dynamo captured; `options` and `mode` are torch.compile's."""
    config = _reproducible(Config.make(kwargs.get("options"), kwargs.get("mode")))
    if config.disabled:
        return gm.forward
    recompiles.seen.note(example_inputs)
    boundary = Boundary(gm, example_inputs)
    start = time.monotonic()

    def compile_one(graph: fx.GraphModule, kind: str) -> Callable[..., Any]:
        run = compile_graph(graph, kind, config, boundary)
        if kind != "backward" and isinstance(run, CompiledGraph) and takes_arguments_as_they_are(graph):
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
        return fall_back(gm, "inference", f"AOTAutograd: {error}".partition("\n")[0][:200], gm.forward, start)


def _reproducible(config: Config) -> Config:
    """With torch.use_deterministic_algorithms: what cuDNN adds up in any order stays torch's, which knows better."""
    if not (torch.are_deterministic_algorithms_enabled() and torch.cuda.is_available()):
        return config
    unordered = {op for op in ATTENTION_OF_GPUS if op.endswith("_backward")}
    return dataclasses.replace(config, exclude=tuple(sorted({*config.exclude, *unordered})))


def capturing(take: Callable[[str, BuiltProgram], None], refuse: Callable[[str], None]) -> Callable[..., Any]:
    """A backend that hands the programs to `take` instead of a server, and runs everything eagerly."""

    def one(graph: fx.GraphModule, kind: str, boundary: Boundary) -> Callable[..., Any]:
        with _disable_current_modes():
            collectives.settle(graph.graph)
            catch(graph, kind, boundary)
        return eager_of(graph)

    def catch(graph: fx.GraphModule, kind: str, boundary: Boundary) -> None:
        try:
            kinds, names = boundary.of(graph)
            overwritten = overwritten_arguments(graph) if kind == "forward" else None
            built = program.build(graph, kinds, input_names=names, overwritten=overwritten)
            if built.proto.nodes:
                take(kind, built)
        except Unsupported as reason:
            if (cut := pieces.cut(graph)) is None:
                return refuse(str(reason))
            for piece in cut.pieces():
                catch(piece.graph, kind, boundary)

    def capture(gm: fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
        boundary = Boundary(gm, example_inputs)
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
    from torch._dynamo.backends.common import aot_autograd

    from preheat import aot_cache, decompositions, partition

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
            partition_fn=partition.partition,
            decompositions=decompositions.table(),
            keep_inference_input_mutations=False,
        )(gm, example_inputs)
    return training.joined(compiled, graphs) if config is not None else compiled


def _restore(config: Config, kind: str, built: BuiltProgram) -> Callable[..., Any]:
    """What torch's cache kept of a graph, with its artifact fetched. What fails here has the graph traced again."""
    try:
        with _disable_current_modes():
            return submit(kind, config, built, interpreter(built), time.monotonic())
    except PreheatError as error:
        if error.kind in ("unreachable", "deadline"):
            breaker.shared.trip(config.server, error)  # it is not to be waited for again
        raise
