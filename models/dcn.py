"""Deep & Cross Network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .base import CTRModel, join, joined_width
from .embedding import FieldEmbedding
from .mlp import HIDDEN, mlp
from .schema import FeatureSchema


class VectorCross(nn.Module):
    """One cross layer, x0 * (x^T w) + b + x: Wang et al. 2017, equation (3).

    The paper writes x0 x^T w; x^T w is one number a row, so that nothing of size width x width is ever formed.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(width, 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x0: Tensor, x: Tensor) -> Tensor:
        """[B, width], [B, width] -> [B, width]."""
        product: Tensor = x0 * self.weight(x)
        return product + self.bias + x


class DCN(CTRModel):
    """Wang et al., "Deep & Cross Network for Ad Click Predictions", ADKDD 2017 (arXiv 1708.05123).

    Embeddings and dense fields side by side (equation 2) go through the cross network (3) and, in parallel, through the
    deep network (4); a logistic regression over both gives the probability (5).

    Args:
        schema: the fields; embeddings may have different dims.
        cross_layers: depth of the cross network.
        hidden: widths of the deep network.
        dropout: in the deep network.
    """

    def __init__(
        self, schema: FeatureSchema, *, cross_layers: int = 3, hidden: Sequence[int] = HIDDEN, dropout: float = 0.0
    ) -> None:
        super().__init__(schema)
        width = joined_width(schema)
        self.embedding = FieldEmbedding(schema)
        self.cross = nn.ModuleList(VectorCross(width) for _ in range(cross_layers))
        self.deep = mlp(width, hidden, dropout=dropout)
        self.head = nn.Linear(width + hidden[-1], 1)

    def logits_of(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        x0 = join(self.embedding(ids).values(), dense)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        logits: Tensor = self.head(torch.cat([x, self.deep(x0)], dim=1))
        return logits
