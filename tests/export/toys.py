"""Modules that an exporter handles, or stumbles over, in one particular way."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Lookup(nn.Module):
    """Two tables, an id matrix [B, 2] and a dense matrix [B, 3] in, a probability [B, 1] out."""

    def __init__(self, rows: int = 20) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.user = nn.Embedding(rows, 4)
        self.item = nn.Embedding(rows, 4)
        self.head = nn.Linear(11, 1)

    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        return torch.sigmoid(self.head(torch.cat([self.user(ids[:, 0]), self.item(ids[:, 1]), dense], dim=1)))


def example(rows: int = 5) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    return torch.randint(0, 20, (rows, 2), generator=random), torch.randn(rows, 3, generator=random)


class FixedBatch(Lookup):
    """Writes the batch of its first call into the graph."""

    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        return super().forward(ids, dense).reshape(int(ids.shape[0]), 1) + torch.zeros(5, 1)


class BranchOnValue(Lookup):
    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        if dense.sum() > 0:
            dense = dense * 2
        return super().forward(ids, dense)


class NoSuchOperator(Lookup):
    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        return super().forward(ids, dense) + torch.special.bessel_j0(dense).sum(dim=1, keepdim=True)


class ThroughNumpy(Lookup):
    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        return super().forward(ids, torch.from_numpy(dense.detach().numpy() * 2))


class Random(Lookup):
    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        return super().forward(ids, dense + torch.rand_like(dense))


class Broken(Lookup):
    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        raise IndexError("index out of range in self")


class Nested(Lookup):
    """A dict of fields and keywords in, a dict of outputs out."""

    def forward(self, fields: dict[str, Tensor], *, dense: Tensor) -> dict[str, Tensor]:
        ids = torch.stack([fields["user"], fields["item"]], dim=1)
        probability = super().forward(ids, dense)
        return {"probability": probability, "rank": probability.argmax(dim=1)}
