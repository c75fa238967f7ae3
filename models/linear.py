"""The first-order part that Wide & Deep and DeepFM share: one weight for each value of each field."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .embedding import FieldEmbedding
from .schema import FeatureSchema


class LinearPart(nn.Module):
    """w^T x + b over one-hot categorical and numeric features: tables of dim 1 on the same ids, summed."""

    def __init__(self, schema: FeatureSchema) -> None:
        super().__init__()
        self.weights = FieldEmbedding(schema, dim=1)
        self.dense = nn.Linear(len(schema.dense), 1, bias=False) if schema.dense else None
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        """Ids by field name and dense [B, D] -> [B, 1]."""
        total = torch.cat(list(self.weights(ids).values()), dim=1).sum(dim=1, keepdim=True) + self.bias
        return total if self.dense is None else total + self.dense(dense)
