"""Small schemas with every kind of field."""

from __future__ import annotations

from typing import Any

import torch

from dpiframe.models import CTRModel, FeatureSchema, MultiHotField, SequenceField, SparseField, create

# Small enough for a test, with each hyperparameter away from its default.
SMALL: dict[str, dict[str, Any]] = {
    "dcn": {"cross_layers": 2, "hidden": (8, 4)},
    "dcnv2": {"cross_layers": 2, "hidden": (8, 4)},
    "dcnv2_mix": {"cross_layers": 1, "experts": 2, "rank": 3, "hidden": (8,)},
    "deepfm": {"hidden": (8, 4)},
    "din": {"attention": (6,), "hidden": (8,)},
    "dlrm": {"bottom": (5,), "top": (8,)},
    "mmoe": {"tasks": 3, "experts": 2, "expert_hidden": (6,), "tower_hidden": (4,)},
    "wide_deep": {"hidden": (8,), "crosses": (("user", "item"),), "cross_buckets": 7},
}
# Models that multiply embeddings of different fields need one dim.
ONE_DIM = ("deepfm", "dlrm")


def brief_schema(*, mixed: bool = True) -> FeatureSchema:
    """The least that exercises a model: two sparse fields, a multi-hot field on a shared table, two dense fields."""
    big = 6 if mixed else 4
    return FeatureSchema(
        sparse=(SparseField("user", 11, 4), SparseField("item", 13, big)),
        dense=("price", "age"),
        multi_hot=(MultiHotField("seen", 13, big, table="item", length=2, pooling="mean"),),
    )


def schema(*, mixed: bool = True) -> FeatureSchema:
    """Two sparse fields, two multi-hot (one on a shared table), two sequences on their targets' tables, two dense."""
    big = 6 if mixed else 4
    return FeatureSchema(
        sparse=(SparseField("user", 11, 4), SparseField("item", 13, big), SparseField("shop", 5, 3 if mixed else 4)),
        dense=("price", "age"),
        multi_hot=(
            MultiHotField("tags", 9, 5 if mixed else 4, length=3, pooling="sum"),
            MultiHotField("seen", 13, big, table="item", length=2, pooling="max", padding_id=3),
        ),
        sequences=(
            SequenceField("items", 13, big, table="item", length=4, target="item"),
            SequenceField("shops", 5, 3 if mixed else 4, table="shop", length=4, target="shop"),
        ),
    )


def small_model(name: str, fields: FeatureSchema | None = None, seed: int = 0) -> CTRModel:
    """A model with weights large enough that an error in any of them shows."""
    torch.manual_seed(seed)
    model = create(name, fields or schema(mixed=name not in ONE_DIM), **SMALL[name])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model


def batch(fields: FeatureSchema, rows: int, seed: int = 0) -> list[torch.Tensor]:
    """Random inputs of a model over the schema."""
    ids, dense = fields.random_batch(rows, seed)
    return fields.model_inputs(torch.from_numpy(ids), torch.from_numpy(dense))
