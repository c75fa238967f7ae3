"""How long-running calls say where they are."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with the step ("loading", "rewriting", "verifying", "measuring"), what it works on, how much is done."""

    def __call__(self, step: str, detail: str, done: int = 0, total: int = 0) -> None: ...


def silent(step: str, detail: str, done: int = 0, total: int = 0) -> None:
    """The Progress of who doesn't want any."""
