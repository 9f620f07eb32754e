"""Launching a kernel by what was compiled for such arguments before.

Triton looks at each argument of each launch and at its own settings, which takes so long that a
step of a thousand tokens, ten kernels a layer, may take the host longer than the GPU. Here the key
of what was compiled is made of the few things in which launches of a kernel differ, and Triton's
own C launcher is called with the same arguments. The first launch under a key is Triton's, so
compiling and errors are, too; so are all launches where its launcher is not the one that is known
here (`launch_directly`), and in its interpreter.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Hashable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime import driver
from triton.runtime.jit import JITFunction

_LOG = logging.getLogger("sgc")
_VERSION = "3.6."  # of Triton, whose launcher is known
_ARGUMENTS = "iiiKKppOOOOOO"  # what it takes before a kernel's own
OWN = len(_ARGUMENTS)
_UNALIGNED = 15  # bits of an address: kernels are compiled for multiples of 16
_MOST = 512  # keys of a kernel, far more than models have; then it begins anew

_devices: set[int] = set()  # where launches are direct
Grid = tuple[int, int]
Arguments = tuple[
    Grid, Sequence[torch.Tensor | None], Sequence[float], Sequence[int], "Form"
]  # of a launch, see `Launcher`


class Form:
    """How a kernel is compiled: its constants and options. Looked up by identity, so keep it."""

    __slots__ = ("constants",)

    def __init__(self, **constants: Any) -> None:
        self.constants = constants


class Launcher:
    """Launches one kernel, on the current stream.

    Its parameters are, in this order: tensors (or None); numbers that may change from launch to
    launch (floats, or integers that Triton does not specialise); numbers of few values; constants.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._compiled: dict[Hashable, tuple[Any, ...]] = {}

    def __call__(
        self,
        grid: Grid,
        tensors: Sequence[torch.Tensor | None],
        free: Sequence[float],
        fixed: Sequence[int],
        form: Form,
    ) -> None:
        """Launch `grid[0] * grid[1]` programs; each value of a number of `fixed` is compiled by
        itself where Triton does so."""
        if not _devices:
            self._plainly(grid, tensors, free, fixed, form)
            return
        device, key, places = _key(tensors, fixed, form)
        compiled = self._compiled.get(key)
        if compiled is None:
            done = self._plainly(grid, tensors, free, fixed, form)
            if device in _devices:
                self._keep(key, done, len(tensors), free)
            return
        launch, function, cooperative, early, sizes, constants = compiled
        launch(
            grid[0], grid[1], 1, driver.active.get_current_stream(device), function,
            cooperative, early, None, None, sizes, None, None, None,
            *places, *free, *fixed, *constants,
        )  # fmt: skip

    def prepared(self, arguments: Arguments, changing: tuple[int, ...]) -> Prepared:
        """The launch with `arguments`, to be repeated on the current stream with other tensors at
        the places `changing` of its tensors."""
        return Prepared(self, arguments, changing)

    def direct(self, arguments: Arguments) -> tuple[Any, list[Any]] | None:
        """Triton's launcher and what it is to be called with, the kernel's own from `OWN` on; None:
        such a launch is not direct, or not yet."""
        grid, tensors, free, fixed, form = arguments
        if not _devices:
            return None
        device, key, places = _key(tensors, fixed, form)
        compiled = self._compiled.get(key)
        if compiled is None:
            return None
        launch, function, cooperative, early, sizes, constants = compiled
        stream = driver.active.get_current_stream(device)
        before = [*grid, 1, stream, function, cooperative, early]
        before += [None, None, sizes, None, None, None]
        assert len(before) == OWN
        return launch, [*before, *places, *free, *fixed, *constants]

    def _plainly(
        self,
        grid: Grid,
        tensors: Sequence[torch.Tensor | None],
        free: Sequence[float],
        fixed: Sequence[int],
        form: Form,
    ) -> Any:
        """Launch as Triton does; gives what it compiled."""
        return self._kernel[grid](*tensors, *free, *fixed, **form.constants)

    def _keep(
        self, key: Hashable | None, compiled: Any, tensors: int, free: Sequence[float]
    ) -> None:
        parameters = self._kernel.params
        for parameter, number in zip(parameters[tensors:], free, strict=False):
            known = isinstance(number, float) or parameter.do_not_specialize
            assert known, f"Triton specialises {parameter.name}, which the key does not hold"
        launcher = compiled.run
        if key is None or launcher.global_scratch_size or launcher.profile_scratch_size:
            return
        if len(self._compiled) >= _MOST:
            self._compiled.clear()
        self._compiled[key] = (
            launcher.launch,
            compiled.function,
            launcher.launch_cooperative_grid,
            launcher.launch_pdl,
            compiled.packed_metadata,
            # Their place is there, and not looked at.
            (None,) * sum(parameter.is_constexpr for parameter in parameters),
        )


class Prepared:
    """A launch that is repeated, with other tensors at some places: in the layers of a model, say.

    They have the number format of those before, and lie on the same device.
    """

    __slots__ = ("_arguments", "_changing", "_launch", "_launcher", "_rest", "_tensors")

    def __init__(self, launcher: Launcher, arguments: Arguments, changing: tuple[int, ...]) -> None:
        grid, tensors, *rest = arguments
        self._launcher, self._rest, self._changing = launcher, (grid, rest), changing
        self._tensors = list(tensors)
        self._launch: Any = None
        self._arguments: list[Any] = []

    def __call__(self, *tensors: torch.Tensor) -> None:
        """Launch, with `tensors` at the places that change."""
        if self._launch is not None:
            bits, arguments = 0, self._arguments
            for at, tensor in zip(self._changing, tensors, strict=True):
                place = tensor.data_ptr()
                bits |= place
                arguments[OWN + at] = place
            if not bits & _UNALIGNED:
                self._launch(*arguments)
                return
        for at, tensor in zip(self._changing, tensors, strict=True):
            self._tensors[at] = tensor
        grid, rest = self._rest
        arguments_now: Any = (grid, self._tensors, *rest)
        self._launcher(*arguments_now)
        if self._launch is None:
            direct = self._launcher.direct(arguments_now)
            if direct is not None:
                self._launch, self._arguments = direct


def _key(
    tensors: Sequence[torch.Tensor | None], fixed: Sequence[int], form: Form
) -> tuple[int, Hashable | None, list[int | None]]:
    """The current device, what a launch is compiled for there, and where its tensors lie; key None:
    it is Triton's matter."""
    bits = 0
    places: list[int | None] = []
    kinds: list[torch.dtype | None] = []
    for tensor in tensors:
        if tensor is None:
            places.append(None)
            kinds.append(None)
        else:
            place = tensor.data_ptr()
            bits |= place
            places.append(place)
            kinds.append(tensor.dtype)
    device: int = driver.active.get_current_device()
    return device, None if bits & _UNALIGNED else (form, device, *fixed, *kinds), places


@triton.jit(do_not_specialize=["free"])
def _tell(
    nothing: tl.tensor,
    given: tl.tensor,
    out: tl.tensor,
    free: tl.tensor,
    factor: tl.tensor,
    fixed: tl.tensor,
    one: tl.tensor,
    CONSTANT: tl.constexpr,
    ABSENT: tl.constexpr,
) -> None:
    """What a program is told, in numbers."""
    at = out + (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * 4
    tl.store(at, free)
    tl.store(at + 1, (tl.full((), 64.0, tl.float32) * factor).to(tl.int32))
    tl.store(at + 2, fixed + one + CONSTANT)
    tl.store(at + 3, tl.load(given) + (nothing is None) * ABSENT)


@functools.cache
def launch_directly(device: torch.device) -> bool:
    """Whether launches on a device are direct from now on: where Triton's launcher is the one that
    is known, and tells a kernel what Triton tells it. For a device that has nothing to do yet:
    waits for it."""
    if device.type != "cuda" or not torch.cuda.is_available() or not _is_known():
        return False
    index = torch.cuda.current_device() if device.index is None else device.index
    _devices.add(index)
    try:
        with torch.cuda.device(index):
            right = tells_right(device)
    except (AttributeError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        _LOG.warning("kernels cannot be launched directly (%s): steps take the host longer", error)
        right = False
    if not right:
        _devices.discard(index)
    return right


def _is_known() -> bool:
    if not isinstance(_tell, JITFunction) or not triton.__version__.startswith(_VERSION):
        return False
    of_driver = getattr(driver.active.launcher_cls, "__module__", "")
    return getattr(sys.modules.get(of_driver), "_BASE_ARGS_FORMAT", None) == _ARGUMENTS


def tells_right(device: torch.device) -> bool:
    """Whether a kernel is told what it is given, by Triton and, the second time, directly."""
    launch, form = Launcher(_tell), Form(CONSTANT=1000, ABSENT=7)
    given = torch.full((4,), 5, dtype=torch.int32, device=device)
    out = torch.zeros(2, 6, 4, dtype=torch.int32, device=device)
    for row, (free, factor) in zip(out, ((1, 0.5), (-48, 2.75)), strict=True):
        launch((3, 2), (None, given, row), (free, factor), (96, 1), form)
    return out.tolist() == [[[1, 32, 1097, 12]] * 6, [[-48, 176, 1097, 12]] * 6]
