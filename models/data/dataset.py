"""Encoded rows in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..schema import FeatureSchema


@dataclass(frozen=True)
class Dataset:
    """N rows, ready for a model.

    Attributes:
        schema: the fields.
        ids: int64 [N, K], the schema's id columns in order.
        dense: float32 [N, D].
        labels: float32 [N, T], 0 or 1, one column a task.
    """

    schema: FeatureSchema
    ids: np.ndarray
    dense: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def tasks(self) -> int:
        """T, the labels a row."""
        return int(self.labels.shape[1])

    def take(self, rows: np.ndarray | slice) -> Dataset:
        """The rows that an index array or a slice picks."""
        return Dataset(self.schema, self.ids[rows], self.dense[rows], self.labels[rows])

    def split(self, *shares: float, seed: int | None = None) -> list[Dataset]:
        """Cuts the rows into consecutive parts.

        Args:
            shares: the size of each part as a share of all rows; the last part takes what rounding leaves over.
            seed: shuffles the rows first; None keeps their order, as a split by time needs.

        Raises:
            ValueError: shares that don't add up to 1, or a part without rows.
        """
        if abs(sum(shares) - 1) > 1e-6:
            raise ValueError(f"shares {shares} don't add up to 1")
        bounds = [round(share * len(self)) for share in np.cumsum(shares)[:-1]]
        order = np.arange(len(self)) if seed is None else np.random.default_rng(seed).permutation(len(self))
        parts = np.split(order, bounds)
        if not all(part.size for part in parts):
            raise ValueError(f"{len(self)} rows are too few to split into {len(shares)} parts")
        return [self.take(part) for part in parts]
