"""Wide & Deep."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .base import CTRModel, join, joined_width
from .embedding import FieldEmbedding
from .linear import LinearPart
from .mlp import HIDDEN, mlp
from .schema import FeatureSchema


class CrossProducts(nn.Module):
    """A weight for each combination of values of two fields: Cheng et al. 2016, equation (1) for pairs.

    The pair (i, j) of a field of V_i and one of V_j values is number i * V_j + j; its weight is row (number mod
    buckets) of a table of dim 1, so that a pair of large fields needs no table of their product.

    Args:
        schema: the fields.
        pairs: names of two sparse fields each.
        buckets: rows of each pair's table.

    Raises:
        ValueError: a name that is no sparse field.
    """

    def __init__(self, schema: FeatureSchema, pairs: Sequence[tuple[str, str]], buckets: int) -> None:
        super().__init__()
        sizes = {item.name: item.vocabulary for item in schema.sparse}
        for name in (name for pair in pairs for name in pair):
            if name not in sizes:
                raise ValueError(f"cross product over {name!r}, which is no sparse field")
        self.pairs = [(left, right, sizes[right]) for left, right in pairs]
        self.buckets = buckets
        tables = [nn.Embedding(buckets, 1) for _ in pairs]
        for table in tables:
            nn.init.normal_(table.weight, std=0.01)
        self.tables = nn.ModuleList(tables)

    def forward(self, ids: dict[str, Tensor]) -> Tensor:
        """Ids by field name -> [B, 1]."""
        weights = [
            table((ids[left] * size + ids[right]) % self.buckets)
            for table, (left, right, size) in zip(self.tables, self.pairs, strict=True)
        ]
        return torch.cat(weights, dim=1).sum(dim=1, keepdim=True)


class WideDeep(CTRModel):
    """Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016 (arXiv 1606.07792).

    The wide part is a linear model over the features and their cross products (equation 1), the deep part an MLP over
    the embeddings (2); their sum goes through the sigmoid (3).

    Args:
        schema: the fields; embeddings may have different dims.
        hidden: widths of the deep part.
        dropout: in the deep part.
        crosses: pairs of sparse fields whose cross product the wide part sees.
        cross_buckets: rows of each pair's table.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        *,
        hidden: Sequence[int] = HIDDEN,
        dropout: float = 0.0,
        crosses: Sequence[tuple[str, str]] = (),
        cross_buckets: int = 10_000,
    ) -> None:
        super().__init__(schema)
        self.embedding = FieldEmbedding(schema)
        self.wide = LinearPart(schema)
        self.crosses = CrossProducts(schema, crosses, cross_buckets) if crosses else None
        self.deep = mlp(joined_width(schema), hidden, dropout=dropout, output=1)

    def logits_of(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        wide: Tensor = self.wide(ids, dense)
        if self.crosses is not None:
            wide = wide + self.crosses(ids)
        deep: Tensor = self.deep(join(self.embedding(ids).values(), dense))
        return wide + deep
