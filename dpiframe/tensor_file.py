"""Tensors on their way between the parent and the child: .npy records one after the other in one file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


def write_tensors(path: Path, tensors: Iterable[Array]) -> None:
    """Unlike numpy.savez, this needs no names, which may hold any character, and can be interrupted anywhere."""
    with path.open("wb") as file:
        for tensor in tensors:
            np.save(file, tensor, allow_pickle=False)


def read_tensors(path: Path, count: int) -> list[Array]:
    with path.open("rb") as file:
        return [np.load(file, allow_pickle=False) for _ in range(count)]
