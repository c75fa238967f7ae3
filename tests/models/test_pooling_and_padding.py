"""Padding never counts, whatever its id and the pooling; the pool of nothing is zero."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpiframe.models import FeatureSchema, FieldEmbedding, MultiHotField, SparseField
from dpiframe.models.embedding import pool, split_inputs
from tests.models.schemas import batch, schema


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    shape=st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(1, 5)),
    pooling=st.sampled_from(["sum", "mean", "max"]),
    kept=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_pool_equals_a_loop(
    seed: int, shape: tuple[int, int, int], pooling: Literal["sum", "mean", "max"], kept: float
) -> None:
    random = np.random.default_rng(seed)
    rows = random.standard_normal(shape).astype(np.float32)
    valid = random.random(shape[:2]) < kept
    expected = np.zeros((shape[0], shape[2]), np.float32)
    for index in range(shape[0]):
        chosen = rows[index][valid[index]]
        if len(chosen):
            expected[index] = {"sum": chosen.sum(0), "mean": chosen.mean(0), "max": chosen.max(0)}[pooling]
    actual = pool(torch.from_numpy(rows), torch.from_numpy(valid), pooling).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_the_padding_row_is_never_read_into_the_result() -> None:
    fields = FeatureSchema(multi_hot=(MultiHotField("tags", 6, 3, length=4, pooling="mean", padding_id=2),))
    embedding = FieldEmbedding(fields)
    ids = torch.tensor([[1, 2, 2, 5], [2, 2, 2, 2]])
    before = embedding({"tags": ids})["tags"]
    with torch.no_grad():
        embedding.tables["tags"].weight[2] = 1000.0
    after = embedding({"tags": ids})["tags"]
    torch.testing.assert_close(before, after)
    assert (after[1] == 0).all()


def test_fields_that_name_one_table_read_one_parameter() -> None:
    embedding = FieldEmbedding(schema())
    assert sorted(embedding.tables) == ["item", "shop", "tags", "user"]
    ids, _ = split_inputs(schema(), tuple(batch(schema(), 8)))
    embedding(ids)["items"].sum().backward()
    only_items = embedding.tables["item"].weight.grad.clone()
    embedding(ids)["item"].sum().backward()
    assert not torch.equal(embedding.tables["item"].weight.grad, only_items)


def test_a_field_may_have_the_name_of_a_module_method() -> None:
    names = ("type", "type_", "keys", "training", "forward", "values", "to")
    fields = FeatureSchema(sparse=tuple(SparseField(name, 4, 2) for name in names))
    found = FieldEmbedding(fields)({name: torch.tensor([1]) for name in names})
    assert tuple(found) == names


def test_another_number_of_inputs_is_named() -> None:
    with pytest.raises(ValueError, match=r"takes 2 inputs \(ids, dense\), not 1"):
        split_inputs(schema(), (torch.zeros(1, 15, dtype=torch.int64),))
