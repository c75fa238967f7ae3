"""From category strings to ids: a vocabulary with a minimum count, or hashing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any
from zlib import crc32

import numpy as np

from .text import RawRows

OUT_OF_VOCABULARY = 0

# Called with what is being done, the bytes read so far and the size of the file.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Vocabulary:
    """Ids 1, 2, ... for the values of a field, the most frequent first; every other value is id 0.

    The empty string (a missing value) is a value like any other.
    """

    ids: dict[str, int]

    @classmethod
    def build(cls, counts: Counter[str], min_count: int) -> Vocabulary:
        """Keeps the values seen at least `min_count` times; equal counts are ordered by value, so that ids never depend
        on the order of rows.
        """
        kept = sorted((-count, value) for value, count in counts.items() if count >= min_count)
        return cls({value: number for number, (_, value) in enumerate(kept, start=1)})

    @property
    def size(self) -> int:
        """Rows of the field's table."""
        return len(self.ids) + 1

    def encode(self, values: Sequence[str]) -> np.ndarray:
        """Strings to int64 ids."""
        return np.fromiter(map(self.ids.get, values, repeat(OUT_OF_VOCABULARY)), np.int64, len(values))


@dataclass(frozen=True)
class Hashing:
    """Ids 1 ... size - 1 by CRC-32 of the value's UTF-8 bytes: no pass over the data, but values may collide."""

    size: int

    def encode(self, values: Sequence[str]) -> np.ndarray:
        """Strings to int64 ids."""
        hashes = np.fromiter((crc32(value.encode()) for value in values), np.int64, len(values))
        return 1 + hashes % (self.size - 1)


@dataclass(frozen=True)
class Encoder:
    """How each categorical field of a data set becomes ids; needed again to serve the model."""

    fields: dict[str, Vocabulary | Hashing]

    @classmethod
    def fit(cls, chunks: Iterable[RawRows], *, min_count: int) -> Encoder:
        """One pass over the data, counting values.

        Args:
            chunks: the rows.
            min_count: values seen less often share id 0.

        Raises:
            ValueError: a minimum count below 1.
        """
        if min_count < 1:
            raise ValueError(f"the minimum count is {min_count}; it must be at least 1")
        counters: dict[str, Counter[str]] = {}
        for chunk in chunks:
            for name, values in chunk.categories.items():
                counters.setdefault(name, Counter()).update(values)
        return cls({name: Vocabulary.build(counts, min_count) for name, counts in counters.items()})

    @classmethod
    def hashed(cls, names: Iterable[str], buckets: int) -> Encoder:
        """Hashing for every field.

        Raises:
            ValueError: fewer than two buckets (id 0 is never used).
        """
        if buckets < 2:
            raise ValueError(f"hashing needs at least 2 buckets, not {buckets}")
        return cls({name: Hashing(buckets) for name in names})

    def encode(self, rows: RawRows) -> np.ndarray:
        """Int64 [n, fields], the columns in the encoder's order.

        Raises:
            ValueError: rows with other fields.
        """
        if set(rows.categories) != set(self.fields):
            raise ValueError(f"the rows have fields {', '.join(rows.categories)}; expected {', '.join(self.fields)}")
        return np.stack([field.encode(rows.categories[name]) for name, field in self.fields.items()], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, JSON-ready: for each field the list of its vocabulary's values, or the size of its hashing."""
        return {
            name: field.size if isinstance(field, Hashing) else list(field.ids) for name, field in self.fields.items()
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Encoder:
        """The inverse of `to_dict`."""
        return cls(
            {
                name: Hashing(field)
                if isinstance(field, int)
                else Vocabulary({value: number for number, value in enumerate(field, start=1)})
                for name, field in data.items()
            }
        )
