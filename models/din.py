"""Deep Interest Network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .base import CTRModel, join, joined_width
from .embedding import FieldEmbedding
from .schema import FeatureSchema


class Dice(nn.Module):
    """p(s) s + (1 - p(s)) alpha s, where p is a sigmoid of the standardized s: Zhou et al. 2018, Section 5.2."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, eps=1e-8, affine=False)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, s: Tensor) -> Tensor:
        """[B, width] -> [B, width]."""
        p: Tensor = torch.sigmoid(self.norm(s))
        rest: Tensor = (1 - p) * self.alpha * s
        return p * s + rest


def dice_mlp(width: int, hidden: Sequence[int]) -> nn.Sequential:
    """Linear + Dice for each hidden width, then one Linear to a single value."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(width, size), Dice(size)]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, 1))


class Attention(nn.Module):
    """The local activation unit, v_U(A) = sum_j a(e_j, v_A) e_j: Zhou et al. 2018, equation (3).

    a is a small network over the candidate, the behaviour, their difference and their product. Its weights are not
    normalized by a softmax, so that their sum keeps the strength of the interest (Section 4.3).
    """

    def __init__(self, dim: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.unit = dice_mlp(4 * dim, hidden)

    def forward(self, candidate: Tensor, behaviours: Tensor, valid: Tensor) -> Tensor:
        """Candidate [B, d], behaviours [B, L, d], valid bool [B, L] -> [B, d]."""
        length, dim = behaviours.shape[1:]
        query = candidate.unsqueeze(1).expand(-1, length, -1)
        pairs = torch.cat([query, behaviours, query - behaviours, query * behaviours], dim=2)
        weight: Tensor = self.unit(pairs.reshape(-1, 4 * dim)).reshape(-1, length)
        weight = weight * valid.to(weight.dtype)
        return (weight.unsqueeze(1) @ behaviours).squeeze(1)


class DIN(CTRModel):
    """Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018 (arXiv 1706.06978).

    The sequence fields together describe one history of behaviours (say, item and category): their embeddings side by
    side are a behaviour, those of their targets the candidate. A place is padding where the first sequence field has
    its padding id.

    Args:
        schema: the fields, with at least one sequence; embeddings may have different dims.
        attention: hidden widths of the activation unit.
        hidden: widths of the network over all fields.

    Raises:
        ValueError: no sequence field, sequences of different lengths, or one whose dim is not its target's.
    """

    def __init__(
        self, schema: FeatureSchema, *, attention: Sequence[int] = (80, 40), hidden: Sequence[int] = (200, 80)
    ) -> None:
        super().__init__(schema)
        if not schema.sequences:
            raise ValueError("DIN compares the candidate with a behaviour history; the schema has no sequence field")
        if len({item.length for item in schema.sequences}) > 1:
            raise ValueError("DIN reads its sequence fields as one history; they must have one length")
        dims = {item.name: item.dim for item in schema.sparse}
        for item in schema.sequences:
            if item.dim != dims[item.target]:
                raise ValueError(
                    f"sequence {item.name!r} has dim {item.dim}, its target {item.target!r} has {dims[item.target]}"
                )
        self.embedding = FieldEmbedding(schema, pool_sequences=False)
        self.attention = Attention(sum(item.dim for item in schema.sequences), attention)
        self.deep = dice_mlp(joined_width(schema), hidden)

    def logits_of(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        sequences = self.schema.sequences
        rows = self.embedding(ids)
        behaviours = torch.cat([rows.pop(item.name) for item in sequences], dim=2)
        candidate = torch.cat([rows[item.target] for item in sequences], dim=1)
        valid = ids[sequences[0].name] != sequences[0].padding_id
        interest = self.attention(candidate, behaviours, valid)
        logits: Tensor = self.deep(join([*rows.values(), interest], dense))
        return logits
