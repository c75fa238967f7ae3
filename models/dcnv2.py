"""DCN-V2: the cross network with a full matrix, and with a mixture of low-rank experts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .base import CTRModel, join, joined_width
from .embedding import FieldEmbedding
from .mlp import HIDDEN, mlp
from .schema import FeatureSchema


class MatrixCross(nn.Module):
    """One cross layer, x0 * (W x + b) + x: Wang et al. 2021, equation (1)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Linear(width, width)

    def forward(self, x0: Tensor, x: Tensor) -> Tensor:
        """[B, width], [B, width] -> [B, width]."""
        product: Tensor = x0 * self.weight(x)
        return product + x


class MixtureCross(nn.Module):
    """One cross layer as a gated sum of low-rank experts: Wang et al. 2021, equations (3) and (4).

        x' = sum_i G_i(x) E_i(x) + x,    E_i(x) = x0 * (U_i g(C_i g(V_i^T x)) + b)

    with g = tanh and G a softmax over the experts. The bias is one for all experts, as in the paper.

    Args:
        width: of x.
        experts: how many.
        rank: columns of U_i and V_i.
    """

    def __init__(self, width: int, experts: int, rank: int) -> None:
        super().__init__()
        self.v = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(experts))
        self.c = nn.ModuleList(nn.Linear(rank, rank, bias=False) for _ in range(experts))
        self.u = nn.ModuleList(nn.Linear(rank, width, bias=False) for _ in range(experts))
        self.bias = nn.Parameter(torch.zeros(width))
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x0: Tensor, x: Tensor) -> Tensor:
        """[B, width], [B, width] -> [B, width]."""
        gates = torch.softmax(self.gate(x), dim=1)
        mixed = x
        for index, (v, c, u) in enumerate(zip(self.v, self.c, self.u, strict=True)):
            low = torch.tanh(c(torch.tanh(v(x))))
            mixed = mixed + gates[:, index : index + 1] * (x0 * (u(low) + self.bias))
        return mixed


class DCNv2(CTRModel):
    """Wang et al., "DCN V2: Improved Deep & Cross Network", WWW 2021 (arXiv 2008.13535), full-matrix cross layers.

    Args:
        schema: the fields; embeddings may have different dims.
        cross_layers: depth of the cross network.
        structure: "parallel": cross and deep network both read the embeddings and a logistic regression reads both;
            "stacked": the deep network reads the cross network's output (Section 3.4).
        hidden: widths of the deep network.
        dropout: in the deep network.

    Raises:
        ValueError: a structure that is neither of the two.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        *,
        cross_layers: int = 3,
        structure: str = "parallel",
        hidden: Sequence[int] = HIDDEN,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(schema)
        if structure not in ("parallel", "stacked"):
            raise ValueError(f"structure is {structure!r}; choose parallel or stacked")
        self.stacked = structure == "stacked"
        width = joined_width(schema)
        self.embedding = FieldEmbedding(schema)
        self.cross = nn.ModuleList(self._cross_layer(width) for _ in range(cross_layers))
        self.deep = mlp(width, hidden, dropout=dropout)
        self.head = nn.Linear(hidden[-1] if self.stacked else width + hidden[-1], 1)

    def _cross_layer(self, width: int) -> nn.Module:
        return MatrixCross(width)

    def logits_of(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        x0 = join(self.embedding(ids).values(), dense)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        last = self.deep(x) if self.stacked else torch.cat([x, self.deep(x0)], dim=1)
        logits: Tensor = self.head(last)
        return logits


class DCNv2Mix(DCNv2):
    """DCN-V2 with a mixture of low-rank experts in each cross layer (Section 3.5).

    Args:
        schema: the fields; embeddings may have different dims.
        experts: experts in a cross layer.
        rank: rank of an expert.
        cross_layers, structure, hidden, dropout: as for DCNv2.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        *,
        experts: int = 4,
        rank: int = 32,
        cross_layers: int = 3,
        structure: str = "parallel",
        hidden: Sequence[int] = HIDDEN,
        dropout: float = 0.0,
    ) -> None:
        self._experts, self._rank = experts, rank
        super().__init__(schema, cross_layers=cross_layers, structure=structure, hidden=hidden, dropout=dropout)

    def _cross_layer(self, width: int) -> nn.Module:
        return MixtureCross(width, self._experts, self._rank)
