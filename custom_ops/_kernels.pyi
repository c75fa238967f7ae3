from collections.abc import Sequence
from typing import Any

from numpy import float32
from numpy.typing import NDArray

class ElementwiseProgram:
    def __init__(
        self,
        text: str,
        instructions: str = "best",
        block_rows: int = 0,
        constants: Sequence[NDArray[Any] | None] = (),
    ) -> None: ...
    def run(self, inputs: Sequence[NDArray[Any]], threads: int = 1) -> list[NDArray[Any]]: ...

class LookupProgram:
    def __init__(self, text: str, baseline: bool = False) -> None: ...
    def run(
        self, sources: Sequence[NDArray[Any]], tables: Sequence[NDArray[Any]], threads: int = 1
    ) -> list[NDArray[Any]]: ...
    @property
    def bad_id_counts(self) -> list[int]: ...

class GemmProgram:
    def __init__(self, text: str) -> None: ...
    def run(
        self,
        a: NDArray[float32],
        weight: NDArray[float32],
        operands: Sequence[NDArray[float32]] = (),
        threads: int = 1,
    ) -> NDArray[float32]: ...
