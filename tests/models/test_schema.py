"""A schema says what is wrong with it, and cuts batches the same way in both layouts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dpiframe.models import FeatureSchema, MultiHotField, SequenceField, SparseField
from tests.models.schemas import schema

USER = SparseField("user", 10, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sparse": (USER, USER)}, "'user' is named twice"),
        ({"sparse": (USER,), "dense": ("user",)}, "'user' is named twice"),
        ({"sparse": (SparseField("a.b", 10, 4),)}, "'a.b'"),
        ({"dense": ("",)}, "field name ''"),
        ({"sparse": (SparseField("user", 0, 4),)}, "vocabulary is 0"),
        ({"sparse": (SparseField("user", 10, 0),)}, "dim is 0"),
        ({"sparse": (SparseField("user", 10, 4, table="a/b"),)}, "'a/b'"),
        ({"sparse": (USER, SparseField("other", 11, 4, table="user"))}, "shares table 'user'"),
        ({"multi_hot": (MultiHotField("tags", 10, 4, length=0),)}, "width is 0"),
        ({"multi_hot": (MultiHotField("tags", 10, 4, padding_id=10),)}, "padding id 10 is outside"),
        ({"multi_hot": (MultiHotField("tags", 10, 4, padding_id=-1),)}, "padding id -1 is outside"),
        ({"multi_hot": (MultiHotField("tags", 10, 4, pooling="median"),)}, "pooling is 'median'"),  # type: ignore[arg-type]
        ({"sequences": (SequenceField("past", 10, 4, length=3, target="user"),)}, "target 'user' is no sparse field"),
        ({"sparse": (USER,), "layout": "columns"}, "layout is 'columns'"),
    ],
)
def test_bad_schema_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^[^\n]*" + message.replace("(", r"\(")):
        FeatureSchema(**arguments)


def test_round_trip_through_json() -> None:
    original = schema().with_layout("fields")
    assert FeatureSchema.from_dict(json.loads(json.dumps(original.to_dict()))) == original


@pytest.mark.parametrize("broken", [{}, {"sparse": [{"nam": "x"}], "dense": [], "multi_hot": [], "sequences": []}])
def test_broken_dict_is_an_error(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a feature schema"):
        FeatureSchema.from_dict(broken)


def test_columns_cover_the_matrix_once_in_order() -> None:
    fields = schema()
    covered = [column for item, start in fields.columns() for column in range(start, start + item.width)]
    assert covered == list(range(fields.id_columns))


def test_both_layouts_hold_the_same_values() -> None:
    fields = schema()
    ids, dense = fields.random_batch(5)
    by_name = dict(
        zip(fields.names, fields.with_layout("fields").model_inputs(ids, dense), strict=True),
    )
    assert fields.input_names == ["ids", "dense"]
    for item, start in fields.columns():
        rejoined = by_name[item.name].reshape(5, -1)
        np.testing.assert_array_equal(rejoined, ids[:, start : start + item.width])
    np.testing.assert_array_equal(np.stack([by_name[name] for name in fields.dense], axis=1), dense)


def test_inputs_that_would_be_empty_are_left_out() -> None:
    assert FeatureSchema(sparse=(USER,)).input_names == ["ids"]
    assert FeatureSchema(dense=("price",)).input_names == ["dense"]


def test_random_batches_are_valid_and_seeded() -> None:
    fields = schema()
    ids, dense = fields.random_batch(500, seed=3)
    assert ids.dtype == np.int64
    assert dense.dtype == np.float32
    for item, start in fields.columns():
        block = ids[:, start : start + item.width]
        assert block.min() == 0
        assert block.max() == item.vocabulary - 1
    np.testing.assert_array_equal(ids, fields.random_batch(500, seed=3)[0])
