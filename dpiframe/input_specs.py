"""A model's inputs: their types, and the sizes that test values are made in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from dpiframe.graph_passes.model_io import ModelError

# Of the symbolic sizes other than the batch (sequence lengths, say), the first gets this one, the next one more, ...
_FIRST_SIZE = 3


@dataclass(frozen=True)
class InputSpec:
    """One graph input. dtype is None for strings. A dimension is a size, a name, or None where it has neither."""

    name: str
    dtype: np.dtype[np.generic] | None
    shape: tuple[int | str | None, ...]


def input_specs(path: Path, model: onnx.ModelProto) -> list[InputSpec]:
    """The inputs a caller must feed (initializers excluded).

    Raises ModelError where no test values can be made for one.
    """
    given = {tensor.name for tensor in model.graph.initializer}
    try:
        return [_spec(value) for value in model.graph.input if value.name not in given]
    except _NoValuesError as error:
        raise ModelError(f"{path}: {error}") from None


def input_differences(original: Sequence[InputSpec], other: Sequence[InputSpec]) -> list[str]:
    """Why another model can't be given an original's inputs, an entry for each that differs.

    Their order may differ, and so may what dimensions are called.
    """
    ours, theirs = ({spec.name: spec for spec in specs} for specs in (original, other))
    found = [f"'{name}' is missing" for name in ours if name not in theirs]
    found += [f"'{name}' is not in the original" for name in theirs if name not in ours]
    for name, spec in ours.items():
        if name in theirs and not _alike(spec, theirs[name]):
            found.append(f"'{name}' is {_described(theirs[name])}, in the original {_described(spec)}")
    return found


def _alike(spec: InputSpec, other: InputSpec) -> bool:
    if spec.dtype != other.dtype:
        return False
    if (None,) in (spec.shape, other.shape):
        # which is also what an input without a shape has
        return True
    return len(spec.shape) == len(other.shape) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(spec.shape, other.shape, strict=True)
    )


def _described(spec: InputSpec) -> str:
    dims = ", ".join("?" if dim is None else str(dim) for dim in spec.shape)
    return f"{'string' if spec.dtype is None else spec.dtype.name}[{dims}]"


class _NoValuesError(Exception):
    """An input for which no test values can be made."""


def _spec(value: onnx.ValueInfoProto) -> InputSpec:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        name = (kind or "value").removesuffix("_type")
        raise _NoValuesError(f"input '{value.name}' is a {name}, not a tensor: can't be verified")
    tensor = value.type.tensor_type
    type_name = onnx.TensorProto.DataType.Name(tensor.elem_type)
    dtype = None
    if type_name != "STRING":
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)) if tensor.elem_type else None
        if dtype is None or dtype.kind not in "fiub" or dtype.isbuiltin != 1:
            raise _NoValuesError(
                f"input '{value.name}' has type {type_name.lower()}, for which no test values can be made"
            )
    if not tensor.HasField("shape"):
        return InputSpec(value.name, dtype, (None,))
    dims = (d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    return InputSpec(value.name, dtype, tuple(dims))


class Sizes:
    """Which dimensions are the batch, and the size of each other symbolic one: the same wherever its name stands.

    The batch is every symbolic dimension that comes first in an input; where none does, the most common name. With
    `equal`, all other names get one size: for exporters that name what is one dimension anew in each input.
    """

    def __init__(self, specs: Sequence[InputSpec], *, equal: bool = False) -> None:
        self._batch = {s.shape[0] for s in specs if s.shape and isinstance(s.shape[0], str)}
        names = Counter(d for s in specs for d in s.shape if isinstance(d, str))
        if not self._batch and names and not any(s.shape[:1] == (None,) for s in specs):
            self._batch = {names.most_common(1)[0][0]}
        others = [name for name in names if name not in self._batch]
        self._others = {name: _FIRST_SIZE + (0 if equal else i) for i, name in enumerate(others)}

    @property
    def has_others(self) -> bool:
        """Whether more than one size was chosen besides the batch."""
        return len(self._others) > 1

    def batch_axis(self, spec: InputSpec) -> int:
        """The axis of the rows: the first that is the batch, else the first of all."""
        return next((i for i, d in enumerate(spec.shape) if self._is_batch(d, i)), 0)

    def is_dynamic(self, specs: Sequence[InputSpec]) -> bool:
        return any(self._is_batch(d, i) for s in specs for i, d in enumerate(s.shape))

    def shape(self, spec: InputSpec, batch: int) -> tuple[int, ...]:
        return tuple(self._size(d, i, batch) for i, d in enumerate(spec.shape))

    def _is_batch(self, dim: int | str | None, axis: int) -> bool:
        return (dim is None and axis == 0) or (isinstance(dim, str) and dim in self._batch)

    def _size(self, dim: int | str | None, axis: int, batch: int) -> int:
        if isinstance(dim, int):
            return dim
        if self._is_batch(dim, axis):
            return batch
        return _FIRST_SIZE if dim is None else self._others[dim]
