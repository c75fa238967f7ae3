from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

class LookupProgram:
    def __init__(self, text: str, baseline: bool = False) -> None: ...
    def run(
        self, sources: Sequence[NDArray[Any]], tables: Sequence[NDArray[Any]], threads: int = 1
    ) -> list[NDArray[Any]]: ...
    @property
    def bad_id_counts(self) -> list[int]: ...
