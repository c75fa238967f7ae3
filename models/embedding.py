"""The front end that every model shares: ids in, one embedding a field out, through ordinary `nn.Embedding` tables."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from .schema import FeatureSchema, MultiHotField, SequenceField, SparseField

# Added to the count in a mean, so that the mean of nothing is 0 and not NaN. Small enough that float32 counts of 1 and
# more stay what they are; not 1e-8, which PyTorch's dynamo exporter takes for zero and leaves out.
_EMPTY = 5e-8
# Pushes padding below every value in a maximum; exact for the values themselves, from which 0 is subtracted.
_FAR = 1e9


class FieldEmbedding(nn.Module):
    """Looks up every field of a schema.

    Each lookup is one `nn.Embedding` call, so that it exports as one plain Gather; fields that share a table call the
    same one.

    Args:
        schema: the fields.
        dim: length of every embedding, in place of the schema's dims (1 gives the weights of a linear model).
        pool_sequences: True gives the mean of each sequence, False the sequence itself.
    """

    def __init__(self, schema: FeatureSchema, *, dim: int | None = None, pool_sequences: bool = True) -> None:
        super().__init__()
        self.schema = schema
        self.pool_sequences = pool_sequences
        self._keys = _module_keys(schema.tables)
        self.tables = nn.ModuleDict()
        for name, (rows, own_dim) in schema.tables.items():
            table = nn.Embedding(rows, dim or own_dim)
            nn.init.normal_(table.weight, std=0.01)
            self.tables[self._keys[name]] = table

    def forward(self, ids: dict[str, Tensor]) -> dict[str, Tensor]:
        """Args:
            ids: by field name, int64 [B] or [B, length], as `split` gives them.

        Returns:
            By field name in input order, float32 [B, dim]; sequences that are not pooled [B, length, dim].
        """
        rows: dict[str, Tensor] = {}
        for item in self.schema.id_fields:
            found = self.tables[self._keys[item.table_name]](ids[item.name])
            if isinstance(item, MultiHotField):
                found = pool(found, ids[item.name] != item.padding_id, item.pooling)
            elif isinstance(item, SequenceField) and self.pool_sequences:
                found = pool(found, ids[item.name] != item.padding_id, "mean")
            rows[item.name] = found
        return rows


def split_inputs(schema: FeatureSchema, inputs: tuple[Tensor, ...]) -> tuple[dict[str, Tensor], Tensor | None]:
    """The model's inputs taken apart.

    Args:
        schema: the fields; its layout says how they arrive.
        inputs: as `schema.input_names` orders them.

    Returns:
        The ids by field name, int64 [B] or [B, length], and the dense fields, float32 [B, D], or None.

    Raises:
        ValueError: another number of inputs than the schema has.
    """
    expected = schema.input_names
    if len(inputs) != len(expected):
        raise ValueError(f"the model takes {len(expected)} inputs ({', '.join(expected)}), not {len(inputs)}")
    if schema.layout == "fields":
        ids = {item.name: value for item, value in zip(schema.id_fields, inputs[: len(schema.id_fields)], strict=True)}
        columns = [value.unsqueeze(1) for value in inputs[len(ids) :]]
        return ids, torch.cat(columns, dim=1) if columns else None
    ids = {
        item.name: inputs[0][:, start] if type(item) is SparseField else inputs[0][:, start : start + item.width]
        for item, start in schema.columns()
    }
    return ids, inputs[-1] if schema.dense else None


def pool(rows: Tensor, valid: Tensor, pooling: str) -> Tensor:
    """Pools [B, L, d] over L, leaving out the places where `valid` (bool [B, L]) is False.

    The pool of no place at all is zero.

    Args:
        pooling: "sum", "mean" or "max".
    """
    weight = valid.to(rows.dtype).unsqueeze(-1)
    if pooling == "max":
        return (rows - (1 - weight) * _FAR).amax(dim=1) * weight.amax(dim=1)
    total = (rows * weight).sum(dim=1)
    return total if pooling == "sum" else total / (weight.sum(dim=1) + _EMPTY)


def _module_keys(names: Iterable[str]) -> dict[str, str]:
    """A key for each table that nn.ModuleDict takes: it refuses the names of its own attributes ("type", "keys")."""
    reserved = nn.ModuleDict()
    keys: dict[str, str] = {}
    for name in names:
        key = name
        while hasattr(reserved, key) or key in keys.values():
            key += "_"
        keys[name] = key
    return keys
