"""Ids from counts: frequent first, rare ones out, independent of the order of rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpiframe.models.data import Encoder
from dpiframe.models.data.encoding import Hashing, Vocabulary
from dpiframe.models.data.text import RawRows

VALUES = st.lists(st.sampled_from(["", "a", "b", "c", "é", "dd"]), min_size=1, max_size=60)


def rows(values: list[str]) -> RawRows:
    return RawRows(np.zeros(len(values), np.float32), np.zeros((len(values), 0), np.float32), (), {"f": values})


@given(VALUES, st.integers(1, 5))
def test_ids_follow_frequency_and_the_minimum_count(values: list[str], min_count: int) -> None:
    vocabulary = Encoder.fit([rows(values)], min_count=min_count).fields["f"]
    counts = Counter(values)
    kept = [value for value in counts if counts[value] >= min_count]
    assert isinstance(vocabulary, Vocabulary)
    assert sorted(vocabulary.ids.values()) == list(range(1, len(kept) + 1))
    assert vocabulary.size == len(kept) + 1
    by_id = sorted(kept, key=vocabulary.ids.__getitem__)
    assert [counts[value] for value in by_id] == sorted((counts[value] for value in kept), reverse=True)
    ids = vocabulary.encode([*values, "never seen"])
    assert ids.dtype == np.int64
    assert [id == 0 for id in ids] == [value not in kept for value in [*values, "never seen"]]


@given(VALUES)
def test_the_order_of_rows_and_chunks_does_not_matter(values: list[str]) -> None:
    whole = Encoder.fit([rows(values)], min_count=1)
    reversed_in_ones = Encoder.fit([rows([value]) for value in reversed(values)], min_count=1)
    assert whole == reversed_in_ones
    assert Encoder.from_dict(whole.to_dict()) == whole


@given(st.lists(st.text(), max_size=20), st.integers(2, 1000))
def test_hashed_ids_are_stable_and_never_zero(values: list[str], size: int) -> None:
    ids = Hashing(size).encode(values)
    assert ((ids >= 1) & (ids < size)).all()
    np.testing.assert_array_equal(ids, Hashing(size).encode(values))


def test_a_known_hash_stays_what_it_is() -> None:
    # CRC-32 of "123456789" is 0xCBF43926 (its published check value).
    assert Hashing(1001).encode(["123456789"])[0] == 1 + 0xCBF43926 % 1000


def test_rows_with_other_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="fields f; expected g"):
        Encoder.hashed(["g"], 5).encode(rows(["a"]))
