"""DeepFM."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .base import CTRModel, common_dim
from .embedding import FieldEmbedding
from .linear import LinearPart
from .mlp import HIDDEN, mlp
from .schema import FeatureSchema


def pairwise_products(factors: Tensor) -> Tensor:
    """Sum of the dot products of all pairs of fields, [B, n, d] -> [B, 1].

    0.5 * sum_f ((sum_i v_if)^2 - sum_i v_if^2): Rendle, "Factorization Machines", ICDM 2010, Lemma 3.1, in O(n d).
    """
    square_of_sum = factors.sum(dim=1).square()
    sum_of_squares = factors.square().sum(dim=1)
    return 0.5 * (square_of_sum - sum_of_squares).sum(dim=1, keepdim=True)


class DeepFM(CTRModel):
    """Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction", IJCAI 2017
    (arXiv 1703.04247).

    sigmoid(y_FM + y_DNN) (equation 1). The factorization machine (2) and the deep part (3, 4) read the same
    embeddings. A dense field has one learned vector, times its value (Rendle's x_i v_i).

    Args:
        schema: the fields; all embeddings have one dim.
        hidden: widths of the deep part.
        dropout: in the deep part.

    Raises:
        ValueError: embeddings of different dims.
    """

    def __init__(self, schema: FeatureSchema, *, hidden: Sequence[int] = HIDDEN, dropout: float = 0.0) -> None:
        super().__init__(schema)
        dim = common_dim(schema, "DeepFM")
        self.embedding = FieldEmbedding(schema)
        self.dense_vectors = nn.Parameter(torch.randn(len(schema.dense), dim) * 0.01) if schema.dense else None
        self.linear = LinearPart(schema)
        self.deep = mlp((len(schema.id_fields) + len(schema.dense)) * dim, hidden, dropout=dropout, output=1)

    def logits_of(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        factors = torch.stack(list(self.embedding(ids).values()), dim=1)
        if dense is not None and self.dense_vectors is not None:
            factors = torch.cat([factors, dense.unsqueeze(-1) * self.dense_vectors], dim=1)
        linear: Tensor = self.linear(ids, dense)
        deep: Tensor = self.deep(factors.flatten(1))
        return linear + pairwise_products(factors) + deep
