"""The form of each product's weight: which numbers it keeps, in how many bits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from sgc_ir.errors import ModelError
from sgc_kernels.linear import Linear
from sgc_kernels.select import Kernels
from sgc_kernels.weights.by_rows import ByRowsLinear, grouped_rows
from sgc_kernels.weights.grouped import GroupedWeight, PackedWeight, fits, pack, quantize, stack
from sgc_runtime.model.converted import Converted
from sgc_runtime.model.upload import Upload
from sgc_runtime.model.weights import WeightSource

HEAD_BITS = 8  # the least that the output head is rounded to


class Products:
    """Makes the products of a model out of its tensors.

    `weights` is the option of that name:

    - `dense`: numbers of the model's format.
    - `auto`: the file's own integers where all tensors of a product are stored as such (see
      `gguf_integers`) and the machine has products for them, else dense.
    - `int8`, `int4`: besides, what the file stores in more bits (or in kinds that are not read) is
      rounded to groups of 8 or 4 bits; the output head never to less than 8.

    With `kept_in`, a directory, converted weights are kept there for later processes (`Converted`).

    Raises:
        ModelError: int8 or int4 where the machine has no such products for the number format.
    """

    def __init__(
        self,
        source: WeightSource,
        kernels: Kernels,
        device: torch.device,
        dtype: torch.dtype,
        weights: str,
        kept_in: Path | None = None,
    ) -> None:
        if weights in ("int4", "int8") and kernels.grouped is None:
            raise ModelError(
                f"weights={weights} needs bfloat16 on a CPU with its dot products (avx512_bf16), "
                f"not {str(dtype).removeprefix('torch.')} on {device}: leave weights at auto"
            )
        self._source = source
        self._kernels = kernels
        self._upload = Upload(device)
        self._dtype = dtype
        self._weights = weights if source.has_integers or weights != "auto" else "dense"
        self._limit: int | None = None
        integers = kernels.grouped is not None and self._weights != "dense"
        self.converted = Converted(
            kept_in if integers else None, Path(source.place), f"{dtype} {self._weights}"
        )
        if integers and not kernels.deterministic:  # else one form, for any number of rows
            # Measured now, before threads that load disturb it.
            self._limit = grouped_rows(4, torch.get_num_threads())

    def linear(self, names: Sequence[str], bias: bool, is_head: bool = False) -> Linear:
        """One product out of several with the same input, stacked in this order. That of the head
        gives float32 where its weight is kept as integers: in fewer bits, likely tokens tie."""
        biases = torch.cat([self.tensor(f"{name}.bias") for name in names]) if bias else None
        tensors = [f"{name}.weight" for name in names]
        weight = self.converted.packed(
            f"{'head' if is_head else 'product'} {' '.join(tensors)}",
            functools.partial(self._integers, tensors, is_head),
        )
        if weight is None:
            return self._dense(tensors, biases)
        return self._grouped(weight, tensors, biases, is_head)

    def tied(self, name: str, tensor: Callable[[], torch.Tensor]) -> Linear:
        """The head out of the embedding; on a GPU it is the same memory."""
        if self._upload.device.type == "cpu":
            return self.linear([name], bias=False, is_head=True)
        return self._kernels.linear(tensor(), None)

    def stacked(self, names: Sequence[Sequence[str]]) -> torch.Tensor:
        """Matrices of equal width in the model's number format, on its device: those of an inner
        list below each other, `[lists, rows of a list, width]`; each list has the same shapes."""
        shapes = [self._source.shapes()[name] for name in names[0]]
        rows, width = [shape[0] for shape in shapes], shapes[0][1]
        stack = self._upload.empty((len(names), sum(rows), width), self._dtype)
        for parts, whole in zip(names, stack, strict=True):
            for part, place in zip(parts, whole.split(rows), strict=True):
                self._upload.fill(place, self._source.load(part))
        return stack

    def tensor(self, name: str) -> torch.Tensor:
        """A tensor in the model's number format, on its device."""
        return self.converted.tensor(name, functools.partial(self._tensor, name))

    def _tensor(self, name: str) -> torch.Tensor:
        return self._upload.tensor(self._on_host(name), self._dtype)

    def _on_host(self, name: str) -> torch.Tensor:
        weight = self._source.grouped(name) if self._source.has_integers else None
        return self._source.load(name) if weight is None else weight.dequantized(self._dtype)

    def _dense(self, names: Sequence[str], bias: torch.Tensor | None) -> Linear:
        whole = self._upload.stacked([self._on_host(name) for name in names], self._dtype)
        return self._kernels.linear(whole, bias)

    def finish(self) -> None:
        """Wait until all that was made has arrived on the device."""
        self._upload.finish()

    def _grouped(
        self, weight: PackedWeight, names: Sequence[str], bias: torch.Tensor | None, is_head: bool
    ) -> Linear:
        assert self._kernels.grouped is not None
        few = self._kernels.grouped(weight, bias, is_head)
        if self._limit is None:
            return few
        return ByRowsLinear(few, self._dense(names, bias), self._limit)

    def _integers(self, names: Sequence[str], is_head: bool) -> PackedWeight | None:
        """The weight as integers; None: it is to be dense."""
        shapes = self._source.shapes()
        if self._kernels.grouped is None or self._weights == "dense":
            return None
        if not all(fits(*shapes[name]) for name in names):
            return None
        parts = [self._part(name, is_head) for name in names]
        whole = [part for part in parts if part is not None]
        return pack(stack(whole)) if len(whole) == len(parts) else None

    def _part(self, name: str, is_head: bool) -> GroupedWeight | None:
        own = self._source.grouped(name)
        if self._weights == "auto":
            return own
        bits = HEAD_BITS if is_head or self._weights == "int8" else 4
        if own is not None and own.bits <= bits:
            return own
        return quantize(self._source.load(name), bits)
