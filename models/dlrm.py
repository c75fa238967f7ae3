"""DLRM."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .base import CTRModel, common_dim
from .embedding import FieldEmbedding
from .mlp import mlp
from .schema import FeatureSchema


class DLRM(CTRModel):
    """Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019
    (arXiv 1906.00091), Section 2.

    The bottom MLP turns the dense fields into one vector as long as an embedding; the dot products of all pairs of
    vectors, with the dense vector itself, go through the top MLP.

    Args:
        schema: the fields; all embeddings have one dim. Without dense fields there is no bottom MLP.
        bottom: hidden widths of the bottom MLP, whose output has the embeddings' dim.
        top: hidden widths of the top MLP.

    Raises:
        ValueError: embeddings of different dims, or a single vector, which has no pair.
    """

    pairs: Tensor

    def __init__(
        self, schema: FeatureSchema, *, bottom: Sequence[int] = (512, 256), top: Sequence[int] = (512, 256)
    ) -> None:
        super().__init__(schema)
        dim = common_dim(schema, "DLRM")
        self.embedding = FieldEmbedding(schema)
        self.bottom = mlp(len(schema.dense), [*bottom, dim]) if schema.dense else None
        vectors = len(schema.id_fields) + bool(schema.dense)
        if vectors < 2:
            raise ValueError("DLRM multiplies pairs of fields; the schema has only one")
        # Places in the flattened [n, n] products, so that picking the pairs is one Gather with constant indices.
        rows, columns = torch.triu_indices(vectors, vectors, offset=1)
        self.register_buffer("pairs", rows * vectors + columns, persistent=False)
        self.top = mlp(len(self.pairs) + (dim if schema.dense else 0), top, output=1)

    def logits_of(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        vectors = list(self.embedding(ids).values())
        if dense is not None and self.bottom is not None:
            vectors.insert(0, self.bottom(dense))
        stacked = torch.stack(vectors, dim=1)
        products = torch.index_select((stacked @ stacked.transpose(1, 2)).flatten(1), 1, self.pairs)
        logits: Tensor = self.top(products if dense is None else torch.cat([vectors[0], products], dim=1))
        return logits
