"""What whole models are measured on: models, dims, hidden sizes, two datasets' fields (the paper's Section V-A)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from dpiframe import models

MODELS = ("dcn", "dcnv2", "wide_deep", "deepfm")
DIMS = (16, 32)
HIDDEN = (256, 512, 1024)
BATCH = 2048

# Rows of each field's table after rare values are dropped, rounded: as published preprocessings of the two have them.
DATASETS = {
    "criteo": (
        *(1500, 600, 200, 100, 250_000, 25_000, 8000, 100, 9000, 6000, 12_000, 2000, 150),  # the 13 counts, in buckets
        *(1460, 580, 400_000, 250_000, 305, 24, 12_500, 633, 4, 93_000, 5600, 350_000, 3200),
        *(27, 14_900, 300_000, 11, 5600, 2170, 4, 320_000, 18, 16, 61_000, 105, 46_000),
    ),
    "avazu": (
        *(240, 8, 8, 4700, 7700, 26, 8500, 560, 36, 270_000, 1_000_000, 8300),
        *(5, 5, 2600, 9, 10, 440, 4, 68, 170, 60, 25, 32),
    ),
}


def schema_of(dataset: str, dim: int, most_rows: int | None = None) -> models.FeatureSchema:
    """Every field looked up, as the paper has it, ids in one matrix."""
    if dataset in DATASETS:
        vocabularies = DATASETS[dataset]
    else:
        fields, rows = map(int, dataset.split("x"))
        vocabularies = (rows,) * fields
    return models.FeatureSchema(
        sparse=tuple(
            models.SparseField(f"f{i}", min(rows, most_rows or rows), dim) for i, rows in enumerate(vocabularies)
        )
    )


@dataclass(frozen=True)
class Configuration:
    """One model to measure.

    dataset: criteo, avazu, or "FIELDSxROWS", so many tables of so many rows. hidden: width of the three hidden layers.
    """

    model: str
    dataset: str = "criteo"
    dim: int = DIMS[0]
    hidden: int = HIDDEN[0]
    batch: int = BATCH

    def schema(self, most_rows: int | None = None) -> models.FeatureSchema:
        """most_rows: cuts tables off there."""
        return schema_of(self.dataset, self.dim, most_rows)

    def module(self, device: str = "cpu", most_rows: int | None = None) -> models.CTRModel:
        """The model with its seeded weights, which are others on other devices, in evaluation mode."""
        torch.manual_seed(0)
        with torch.device(device):
            return models.create(self.model, self.schema(most_rows), hidden=(self.hidden,) * 3).eval()

    def ids(self) -> torch.Tensor:
        """One batch of valid ids, int64 [batch, fields], uniform over each table."""
        return torch.from_numpy(self.schema().random_batch(self.batch, seed=1)[0])


def paper() -> Iterator[Configuration]:
    """The 48 of the paper's Fig. 7, in an order in which a run that stops early has all models, dims and data sets."""
    for hidden, dim, dataset, model in itertools.product(HIDDEN, DIMS, DATASETS, MODELS):
        yield Configuration(model, dataset, dim, hidden)
