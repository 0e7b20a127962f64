"""Our graphs in torch's AOTAutograd cache, so that a fresh process need not trace what another has traced.

The cache keeps programs, not artifacts: those are fetched as ever, under the options of the process at hand. Its key
does not say who compiled, so ours adds that: this package's version and sources, and the options that shape programs.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import importlib
import json
import logging
import os
import pathlib
import re
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from preheat import training
from preheat.built_program import BuiltProgram
from preheat.config import Config

Run = Callable[[list[Any]], Any]
Restore = Callable[[str, BuiltProgram], Run]  # kind, program

_restore: contextvars.ContextVar[Restore] = contextvars.ContextVar("preheat_restore")


@contextlib.contextmanager
def used(config: Config, restore: Restore) -> Iterator[None]:
    """Within it, compilers made by `serializable` are cached, and `restore` makes callables of what the cache had."""
    token = _restore.set(restore)
    try:
        with (
            _code_generators_on_demand(),
            torch.compiler.config.patch(cache_key_tag=tag(config)),
            # An entry holds the backward graph too: it is compiled at once, not when it is first run.
            torch._functorch.config.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True),
            _without_inductors_backends(),
            _without_digests(),
            _without_components(),
            _without_printing(),
        ):
            yield
    finally:
        _restore.reset(token)


def _without_inductors_backends() -> contextlib.AbstractContextManager[Any]:
    """The cache's key asks for the passes of Inductor's backends, and so imports all of its code generators: seconds.
    They have no part in what we compile."""
    from torch._inductor import codecache

    nothing = {
        "init_backend_registration": lambda: None,
        "custom_backend_passes": {},
        "custom_backend_codegen_configs": {},
    }
    return mock.patch.multiple(codecache, **{k: v for k, v in nothing.items() if hasattr(codecache, k)})


def _without_digests() -> contextlib.AbstractContextManager[Any]:
    """The cache's key holds digests of every file of Triton's and of torch's, 0.4 s of reading. Triton has no part in
    what we compile, and a release of torch is known by its commit. What torch remembers of the digests, and what other
    threads ask for meanwhile, stays as it is."""
    from torch._inductor import codecache

    patched = contextlib.ExitStack()
    system = _here(_system, codecache.CacheBase.get_system)
    patched.enter_context(mock.patch.object(codecache.CacheBase, "get_system", staticmethod(system)))
    if _is_release():
        patched.enter_context(mock.patch.object(codecache, "torch_key", _here(_torch, codecache.torch_key)))
    return patched


def _without_components() -> contextlib.AbstractContextManager[Any]:
    """Behind its key the cache computes a key of every component, for logs that hardly anybody keeps: half of what
    looking a graph up costs."""
    from torch._functorch._aot_autograd import autograd_cache
    from torch._inductor import codecache

    if os.environ.get("TORCH_TRACE") or autograd_cache.log.isEnabledFor(logging.DEBUG):
        return contextlib.nullcontext()
    pickler = codecache.FxGraphCachePickler
    return mock.patch.object(pickler, "debug_lines", _here(lambda *_: [], pickler.debug_lines))


def _without_printing() -> contextlib.AbstractContextManager[Any]:
    """AOTAutograd prints every graph for an entry's logs, which is a twentieth of what it does; somebody who looks at
    graphs has told torch so."""
    from torch._logging import _internal

    told = any(os.environ.get(name) for name in ("TORCH_TRACE", "TORCH_LOGS", "TORCH_COMPILE_DEBUG"))
    if told or getattr(_internal.log_state, "artifact_names", True):
        return contextlib.nullcontext()
    module = torch.fx.GraphModule
    return mock.patch.object(module, "print_readable", _here(lambda *_, **__: "", module.print_readable))


def _here(ours: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Ours for this thread, what was there for all others, which may compile for Inductor meanwhile."""
    thread = threading.get_ident()

    def either(*given: Any, **named: Any) -> Any:
        return (ours if threading.get_ident() == thread else original)(*given, **named)

    return either


def _is_release() -> bool:
    """Not a build of a checkout that may be edited: those are told by their version, as in 2.12.0a0+git70d99e9."""
    return bool(re.fullmatch(r"\d+\.\d+\.\d+(\+(cu|rocm|xpu|cpu)[\d.]*)?", torch.__version__))


def _torch() -> bytes:
    return f"{torch.__version__} {torch.version.git_version}".encode()


def _system() -> dict[str, Any]:
    """What programs may depend on outside of torch: the device, of which attention's kernel is chosen, and CUDA."""
    if not torch.cuda.is_available():
        return {"hash": "no GPU"}
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    version = torch.version.cuda or torch.version.hip
    return {"hash": f"{properties.name} {properties.major}.{properties.minor} {version}"}


_KERNEL_SOURCE = "user_defined_triton_kernel_transitive_closure_source_code"


@contextlib.contextmanager
def _code_generators_on_demand() -> Iterator[None]:
    """Torch's key asks Inductor for the source of users' Triton kernels, and its wrapper for a log of Inductor's: both
    import all of its code generators, a large part of a first call, even where there is nothing to ask or to log. Here
    these two modules are imported when something else is looked up in them, or the function is called.
    """
    late = [_LateModule("torch._inductor.codegen.wrapper", _KERNEL_SOURCE, None)]
    if os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1":
        late.append(_LateModule("torch._inductor.debug", "enable_aot_logging", contextlib.nullcontext))
    late = [module for module in late if module.__name__ not in sys.modules]
    sys.modules.update({module.__name__: module for module in late})
    try:
        yield
    finally:
        for module in late:
            module.leave()


class _LateModule(types.ModuleType):
    """Stands for a module of which one function's name is taken, with what to call instead; None: the function."""

    def __init__(self, name: str, function: str, instead: Callable[..., Any] | None) -> None:
        super().__init__(name)
        setattr(self, function, instead or (lambda *given: getattr(self._module(), function)(*given)))

    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]

    def _module(self) -> types.ModuleType:
        self.leave()
        return importlib.import_module(self.__name__)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # the import system's own questions
            raise AttributeError(attribute)
        return getattr(self._module(), attribute)


def is_on() -> bool:
    """Whether torch has the cache and this compilation may use it."""
    tracing = torch._guards.TracingContext.try_get()
    # DistributedDataParallel's parts are called with fake tensors first, which entries of the cache do not expect.
    return torch._functorch.config.enable_autograd_cache and not (tracing is not None and tracing.fakify_first_call)


def serializable(compiler: Callable[[Any], Run], kind: str) -> SerializableAOTDispatchCompiler:
    """A compiler as torch caches it. A new one for each compilation: torch wraps them in place."""
    return SerializableAOTDispatchCompiler(_Entry, lambda graph, _: _Entry(kind, compiler(graph)))


class _Entry(OutputCode):
    """A graph as the cache keeps it: its program. What runs it is made anew in each process."""

    def __init__(self, kind: str, run: Run) -> None:
        self._boxed_call = True
        self._kind, self._run = kind, run
        self._built: BuiltProgram | None = getattr(run, "built", None)
        self._signature = getattr(run, "signature", None)

    def __call__(self, args: list[Any]) -> Any:  # type: ignore[override]
        return self._run(args)

    def prepare_for_serialization(self) -> None:
        """Torch calls it on a copy of the object."""
        if self._built is None:
            raise BypassAOTAutogradCache("a graph that runs eagerly is not kept: the next process may have a server")
        if self._built.groups or any(s.constant is not None for s in self._built.inputs):
            raise BypassAOTAutogradCache("names of process groups and large constants are this process's own")
        del self._run

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        assert self._built is not None
        self._run = _restore.get()(self._kind, self._built)
        if hasattr(self._run, "signature"):
            self._run.signature = self._signature
        training.note(self._kind, self._run)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


def tag(config: Config) -> str:
    """What keeps entries of other compilers, versions and options apart."""
    shaping = [
        _sources(),
        config.freeze,
        config.exclude,
        config.target,
        torch.compiler.config.cache_key_tag,
        _attention(),
    ]
    return f"preheat {hashlib.sha256(json.dumps(shaping).encode()).hexdigest()}"


def _attention() -> list[bool]:
    """The kernels of attention that are allowed, of which tracing chooses one. Torch's own key does not hold them."""
    cuda = torch.backends.cuda
    enabled = (cuda.flash_sdp_enabled, cuda.mem_efficient_sdp_enabled, cuda.math_sdp_enabled, cuda.cudnn_sdp_enabled)
    return [bool(one()) for one in enabled]


@functools.cache
def _sources() -> str:
    """A digest of this package, which is what a version is while it is worked on."""
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
