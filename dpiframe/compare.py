"""Whether two runs gave the same answers: the bounds, and where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

# |a - b| <= BOUND * max(1, max|b|), b the original's output. float16 keeps 11 bits: a bound of two units in the last
# place. Products with operands of 11 bits (tf32, fp16) err as much in each layer, and layers add up.
FLOAT32_BOUND = 1e-6
FLOAT16_BOUND = 2e-3
REDUCED_BOUND = 1e-2
# What lies between the bound and this one may come of rounding alone, where a model cancels large values.
ROUNDING_BOUND = 1e-3


@dataclass(frozen=True)
class Difference:
    """Where two outputs differ most beyond the bound. rounding: nowhere by more than ROUNDING_BOUND. nan: somewhere the
    result's is NaN and the original's is not."""

    output: str
    original: str
    optimized: str
    where: str
    rounding: bool = False
    nan: bool = False

    def __str__(self) -> str:
        return f"output '{self.output}'{self.where} is {self.optimized}, the original's {self.original}"


def largest_difference(reference: Sequence[Array], result: Sequence[Array]) -> float:
    """The largest |a - b| over all float outputs, NaNs and infinities left out. Shapes must agree."""
    largest = 0.0
    for a, b in zip(result, reference, strict=True):
        if b.dtype.kind == "f" and b.size:
            gap = _gaps(a, b)
            largest = max(largest, float(np.max(gap, initial=0.0, where=np.isfinite(gap))))
    return largest


def difference(
    names: Sequence[str], reference: Sequence[Array], result: Sequence[Array], *, bound: float = FLOAT32_BOUND
) -> Difference | None:
    """The first output of `result` that isn't the reference's, or None. NaN equals NaN, and infinities those of their
    sign.

    bound: of float outputs, FLOAT32_BOUND or a looser one for models that compute with fewer bits. float16 outputs are
    held to FLOAT16_BOUND at least.
    """
    for name, b, a in zip(names, reference, result, strict=True):
        if a.dtype != b.dtype:
            return Difference(name, b.dtype.name, a.dtype.name, " in type")
        if a.shape != b.shape:
            return Difference(name, str(list(b.shape)), str(list(a.shape)), " in shape")
        wrong = _beyond_bound(a, b, bound)
        if wrong.any():
            at = np.unravel_index(_worst(a, b, wrong), b.shape)
            index = f"[{', '.join(map(str, at))}]" if at else ""
            rounding = not _beyond_bound(a, b, ROUNDING_BOUND).any()
            nan = b.dtype.kind == "f" and bool((np.isnan(a) & ~np.isnan(b)).any())
            return Difference(name, _spell(b[at]), _spell(a[at]), index, rounding, nan)
    return None


def _beyond_bound(a: Array, b: Array, bound: float) -> npt.NDArray[np.bool_]:
    if b.dtype.kind != "f":
        return np.asarray(a != b)
    if b.dtype == np.float16:
        bound = max(bound, FLOAT16_BOUND)
    finite = np.isfinite(b)
    scale = max(1.0, float(np.max(np.abs(b.astype(np.float64)), initial=0.0, where=finite)))
    gap = _gaps(a, b)
    return np.asarray(np.where(np.isfinite(a) & finite, gap > bound * scale, gap != 0))


def _gaps(a: Array, b: Array) -> npt.NDArray[np.float64]:
    """|a - b|; 0 where both are NaN or the same infinity, infinite where only one is."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(x - y)
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def _worst(a: Array, b: Array, wrong: npt.NDArray[np.bool_]) -> np.intp:
    if b.dtype.kind != "f":
        return np.argmax(wrong)
    return np.argmax(np.where(wrong, _gaps(a, b), -1.0))


def _spell(value: np.generic) -> str:
    """A value with all the digits that tell it from its neighbours."""
    return str(value.item() if value.dtype.kind not in "f" else value)
