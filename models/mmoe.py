"""Multi-gate Mixture-of-Experts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .base import CTRModel, join, joined_width
from .embedding import FieldEmbedding
from .mlp import mlp
from .schema import FeatureSchema


class MMoE(CTRModel):
    """Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts", KDD 2018.

    y_k = h_k(sum_i g_k(x)_i f_i(x)) (equations 6 and 7), with g_k(x) = softmax(W_k x) (8): all tasks share the experts
    f_i, and each has a gate g_k and a tower h_k of its own.

    Args:
        schema: the fields; embeddings may have different dims.
        tasks: T, the number of probabilities a row (say, click and conversion).
        experts: how many.
        expert_hidden: widths of each expert.
        tower_hidden: widths of each task's tower.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        *,
        tasks: int = 2,
        experts: int = 4,
        expert_hidden: Sequence[int] = (256, 128),
        tower_hidden: Sequence[int] = (64,),
    ) -> None:
        super().__init__(schema, tasks)
        width = joined_width(schema)
        self.embedding = FieldEmbedding(schema)
        self.experts = nn.ModuleList(mlp(width, expert_hidden) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(width, experts, bias=False) for _ in range(tasks))
        self.towers = nn.ModuleList(mlp(expert_hidden[-1], tower_hidden, output=1) for _ in range(tasks))

    def logits_of(self, ids: dict[str, Tensor], dense: Tensor | None) -> Tensor:
        x = join(self.embedding(ids).values(), dense)
        experts = torch.stack([expert(x) for expert in self.experts], dim=1)
        logits = []
        for gate, tower in zip(self.gates, self.towers, strict=True):
            weights = torch.softmax(gate(x), dim=1).unsqueeze(1)
            logits.append(tower((weights @ experts).squeeze(1)))
        return torch.cat(logits, dim=1)
