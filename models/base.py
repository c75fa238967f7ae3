"""What all models have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .embedding import split_inputs
from .schema import FeatureSchema


class CTRModel(nn.Module):
    """A click-through-rate model over a schema's fields.

    A model of one's own derives from this and defines `logits_of`.

    Attributes:
        schema: its fields, and the layout in which they arrive.
        tasks: T, the number of probabilities a row.
        name, hyper: what `models.create` was called with; a checkpoint stores them.
    """

    name: str = ""
    output_names = ("probability",)

    def __init__(self, schema: FeatureSchema, tasks: int = 1) -> None:
        super().__init__()
        if not schema.id_fields:
            raise ValueError("the schema has no field to look up; give it at least one sparse or multi-hot field")
        self.schema = schema
        self.tasks = tasks
        self.hyper: Mapping[str, Any] = {}

    def logits_of(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        """The model itself.

        Args:
            ids: by field name, int64 [B] or [B, length].
            dense: float32 [B, D], or None.

        Returns:
            float32 [B, T], before the sigmoid.
        """
        raise NotImplementedError

    def logits(self, *inputs: Tensor) -> Tensor:
        """Float32 [B, T], before the sigmoid; `inputs` as `schema.input_names` orders them."""
        return self.logits_of(*split_inputs(self.schema, inputs))

    def forward(self, *inputs: Tensor) -> Tensor:
        """Probabilities, float32 [B, T]; `inputs` as `schema.input_names` orders them."""
        return torch.sigmoid(self.logits(*inputs))


def join(rows: Iterable[Tensor], dense: Tensor | None) -> Tensor:
    """Embeddings [B, d_i] and dense fields [B, D] side by side: [B, sum of d_i + D]."""
    parts = list(rows)
    return torch.cat(parts if dense is None else [*parts, dense], dim=1)


def joined_width(schema: FeatureSchema) -> int:
    """The width of `join` over all fields of the schema."""
    return sum(item.dim for item in schema.id_fields) + len(schema.dense)


def common_dim(schema: FeatureSchema, model: str) -> int:
    """The one embedding length that all fields have.

    Raises:
        ValueError: they differ.
    """
    dims = {item.dim for item in schema.id_fields}
    if len(dims) > 1:
        raise ValueError(
            f"{model} multiplies embeddings of different fields, so all must have one dim; the schema has "
            f"{', '.join(map(str, sorted(dims)))}"
        )
    return dims.pop()
