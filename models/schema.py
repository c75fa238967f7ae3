"""The fields of a click-through-rate model, and how a batch of them reaches the model.

Nothing here needs PyTorch: data readers use the same schema as the models.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

Pooling = Literal["sum", "mean", "max"]
Layout = Literal["matrix", "fields"]

POOLINGS: tuple[Pooling, ...] = ("sum", "mean", "max")
LAYOUTS: tuple[Layout, ...] = ("matrix", "fields")
IDS_INPUT = "ids"
DENSE_INPUT = "dense"

# A name becomes part of a module path and of ONNX value names, where "." and "/" separate.
_NAME = re.compile(r"^[A-Za-z_][\w-]*$")


@dataclass(frozen=True)
class SparseField:
    """One categorical value a row.

    Attributes:
        name: the field's name.
        vocabulary: rows of its table; ids are 0 ... vocabulary - 1. The readers give 0 to values out of the
            vocabulary.
        dim: length of an embedding.
        table: fields that name the same table share it; None gives the field a table of its own.
    """

    name: str
    vocabulary: int
    dim: int
    table: str | None = None

    @property
    def table_name(self) -> str:
        """The table that the field reads."""
        return self.table or self.name

    @property
    def width(self) -> int:
        """Columns of the id matrix that the field takes."""
        return 1


@dataclass(frozen=True)
class MultiHotField(SparseField):
    """Up to `length` categorical values a row, pooled into one embedding.

    A row with fewer values is filled up with `padding_id`; padding takes no part in the pooling, and the pool of
    nothing is a row of zeros.
    """

    length: int = 1
    pooling: Pooling = "mean"
    padding_id: int = 0

    @property
    def width(self) -> int:
        return self.length


@dataclass(frozen=True)
class SequenceField(SparseField):
    """The last `length` values of a behaviour history, oldest first, filled up with `padding_id`.

    `target` names the sparse field of the candidate that a model with attention (DIN) compares the history with. Models
    without attention pool the history by its mean.
    """

    length: int = 1
    target: str = ""
    padding_id: int = 0

    @property
    def width(self) -> int:
        return self.length


@dataclass(frozen=True)
class FeatureSchema:
    """All fields of a model.

    Attributes:
        sparse: one id a row.
        dense: names of the numeric fields, one float a row each.
        multi_hot: several ids a row, pooled.
        sequences: behaviour histories.
        layout: how a batch of B rows reaches the model. "matrix": `ids`, int64 [B, K], holds the sparse fields'
            columns, then each multi-hot field's, then each sequence's; and `dense`, float32 [B, D]. "fields": one
            input a field, int64 [B] (sparse) or [B, length], float32 [B] (dense), in the same order.

    Raises:
        ValueError: names that repeat or are no identifiers, fields that share a table but disagree about its size, a
            padding id outside the table, a sequence whose target is no sparse field.
    """

    sparse: tuple[SparseField, ...] = ()
    dense: tuple[str, ...] = ()
    multi_hot: tuple[MultiHotField, ...] = ()
    sequences: tuple[SequenceField, ...] = ()
    layout: Layout = "matrix"
    tables: dict[str, tuple[int, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for kind in ("sparse", "dense", "multi_hot", "sequences"):
            object.__setattr__(self, kind, tuple(getattr(self, kind)))
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout is {self.layout!r}; choose one of {', '.join(LAYOUTS)}")
        seen: set[str] = set()
        for name in self.names:
            if not _NAME.match(name):
                raise ValueError(
                    f"field name {name!r}: use letters, digits, '_' and '-', starting with a letter or '_'"
                )
            if name in seen:
                raise ValueError(f"field {name!r} is named twice")
            seen.add(name)
        tables: dict[str, tuple[int, int]] = {}
        for item in self.id_fields:
            _check_field(item)
            shape = (item.vocabulary, item.dim)
            if tables.setdefault(item.table_name, shape) != shape:
                raise ValueError(
                    f"field {item.name!r} shares table {item.table_name!r} but gives it shape {list(shape)}, "
                    f"others {list(tables[item.table_name])}"
                )
        sparse_names = {item.name for item in self.sparse}
        for sequence in self.sequences:
            if sequence.target not in sparse_names:
                raise ValueError(f"sequence {sequence.name!r}: its target {sequence.target!r} is no sparse field")
        object.__setattr__(self, "tables", tables)

    @property
    def id_fields(self) -> tuple[SparseField, ...]:
        """Every field that is looked up, in the order of the id matrix."""
        return (*self.sparse, *self.multi_hot, *self.sequences)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields, in input order."""
        return (*(item.name for item in self.id_fields), *self.dense)

    @property
    def id_columns(self) -> int:
        """K, the width of the id matrix."""
        return sum(item.width for item in self.id_fields)

    def columns(self) -> Iterator[tuple[SparseField, int]]:
        """Each id field with the first of its columns of the id matrix."""
        start = 0
        for item in self.id_fields:
            yield item, start
            start += item.width

    @property
    def input_names(self) -> list[str]:
        """The model's inputs in order, for this layout."""
        if self.layout == "fields":
            return list(self.names)
        return [IDS_INPUT] * bool(self.id_fields) + [DENSE_INPUT] * bool(self.dense)

    def model_inputs(self, ids: Any, dense: Any) -> list[Any]:
        """Cuts a batch into the model's inputs, for this layout.

        Args:
            ids: int64 [B, K] (NumPy or torch).
            dense: float32 [B, D].

        Returns:
            Views of the two, in the order of `input_names`.
        """
        if self.layout == "matrix":
            return [ids] * bool(self.id_fields) + [dense] * bool(self.dense)
        inputs = [
            ids[:, start] if type(item) is SparseField else ids[:, start : start + item.width]
            for item, start in self.columns()
        ]
        return inputs + [dense[:, column] for column in range(len(self.dense))]

    def random_batch(self, rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Valid random values, for examples and tests.

        Returns:
            Ids, int64 [rows, K], uniform over each table; of two rows or more the last is padding wherever it can
            be. And dense values, float32 [rows, D].
        """
        random = np.random.default_rng(seed)
        ids = np.empty((rows, self.id_columns), np.int64)
        for item, start in self.columns():
            block = ids[:, start : start + item.width]
            block[:] = random.integers(0, item.vocabulary, block.shape)
            if rows > 1 and isinstance(item, (MultiHotField, SequenceField)):
                block[-1] = item.padding_id
        return ids, random.standard_normal((rows, len(self.dense)), dtype=np.float32)

    def with_layout(self, layout: Layout) -> FeatureSchema:
        """The same fields, arriving in another layout; a model's weights fit both."""
        return dataclasses.replace(self, layout=layout)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers: JSON-ready."""
        return {
            "sparse": [dataclasses.asdict(item) for item in self.sparse],
            "dense": list(self.dense),
            "multi_hot": [dataclasses.asdict(item) for item in self.multi_hot],
            "sequences": [dataclasses.asdict(item) for item in self.sequences],
            "layout": self.layout,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FeatureSchema:
        """The inverse of `to_dict`.

        Raises:
            ValueError: keys that are missing or unknown.
        """
        try:
            return cls(
                sparse=_build(SparseField, data["sparse"]),
                dense=tuple(data["dense"]),
                multi_hot=_build(MultiHotField, data["multi_hot"]),
                sequences=_build(SequenceField, data["sequences"]),
                layout=data["layout"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a feature schema: {error}") from error


Field = TypeVar("Field", bound=SparseField)


def _build(kind: type[Field], rows: Sequence[dict[str, Any]]) -> tuple[Field, ...]:
    return tuple(kind(**row) for row in rows)


def _check_field(item: SparseField) -> None:
    for attribute in ("vocabulary", "dim", "width"):
        value = getattr(item, attribute)
        if value < 1:
            raise ValueError(f"field {item.name!r}: {attribute} is {value}; it must be at least 1")
    if not _NAME.match(item.table_name):
        raise ValueError(f"field {item.name!r}: table name {item.table_name!r} is no identifier")
    if isinstance(item, MultiHotField) and item.pooling not in POOLINGS:
        raise ValueError(f"field {item.name!r}: pooling is {item.pooling!r}; choose one of {', '.join(POOLINGS)}")
    if isinstance(item, (MultiHotField, SequenceField)) and not 0 <= item.padding_id < item.vocabulary:
        raise ValueError(
            f"field {item.name!r}: padding id {item.padding_id} is outside its table of {item.vocabulary} rows"
        )
