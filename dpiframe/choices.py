"""What options choose from, for Python's functions and the command line alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dpiframe.errors import UsageError

Provider = Literal["auto", "cpu", "cuda"]
BadIds = Literal["error", "zero", "clamp"]
Precision = Literal["fp32", "tf32", "fp16"]


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError for a value that is no choice."""
    if value not in choices:
        raise UsageError(f"{name} {value!r}: choose one of {', '.join(choices)}")
