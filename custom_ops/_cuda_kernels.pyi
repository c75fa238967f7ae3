from collections.abc import Sequence
from typing import Any

from numpy import uint8
from numpy.typing import NDArray

class DeviceArray:
    def __init__(self, values: NDArray[Any]) -> None: ...
    @property
    def address(self) -> int: ...
    def read(self) -> NDArray[uint8]: ...

class CudaLookup:
    def __init__(self, text: str, source_types: Sequence[str], table_type: str, tables: Sequence[int]) -> None: ...
    def launch(
        self,
        rows: int,
        sources: Sequence[int],
        columns: Sequence[int],
        tables: Sequence[int],
        outputs: Sequence[int],
        stream: int,
        rows_per_thread: int = 0,
    ) -> None: ...
    @property
    def bad_id_counts(self) -> list[int]: ...

class CudaGemm:
    def __init__(self, text: str, weight: int) -> None: ...
    def launch(
        self, m: int, a: int, weight: int, operands: Sequence[int], y: int, stream: int, kernel: int = -1
    ) -> None: ...
    @property
    def kernel_names(self) -> list[str]: ...
    def kernel_for(self, m: int) -> int: ...
