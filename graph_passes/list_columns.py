"""What an input may hold beside ids, where bags of ids lie one after the other in one list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Offsets:
    """Where each bag begins in the list, the input `into`. closed: the last is the list's end and begins no bag."""

    into: str
    closed: bool = False


@dataclass(frozen=True)
class Lengths:
    """How many ids each bag has, of the list, the input `into`: all of its ids, in the order of all elements."""

    into: str


Column = range | Offsets | Lengths | None
"""What a column of an input holds: ids, of which these are valid, places in a list or numbers of its ids, or else."""
