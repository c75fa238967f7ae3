"""The generator: Criteo's shape, the same rows for the same seed, and clicks that follow from the values."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.models.data import CRITEO_VOCABULARIES, Dataset, generate
from dpiframe.models.data.criteo import DENSE, SPARSE


def test_criteo_shape() -> None:
    data = generate(2000, scale=1e-4)
    assert data.schema.dense == DENSE
    assert tuple(item.name for item in data.schema.sparse) == SPARSE
    sizes = [item.vocabulary - 1 for item in data.schema.sparse]
    for size, real in zip(sizes, CRITEO_VOCABULARIES, strict=True):
        assert size == min(real, max(100, -(-real // 10_000)))
    assert data.ids.min() == 1
    assert (data.ids.max(axis=0) <= sizes).all()
    assert (data.dense >= 0).all()
    assert 0.2 < data.labels.mean() < 0.45


def test_ids_are_skewed() -> None:
    column = generate(20_000, scale=1e-4).ids[:, 2]
    counts = np.sort(np.bincount(column))[::-1]
    assert counts[:10].sum() > 0.4 * len(column)


def test_same_seed_same_rows() -> None:
    one, two, other = (generate(300, scale=1e-6, history=3, seed=seed) for seed in (4, 4, 5))
    for name in ("ids", "dense", "labels"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))


def test_a_history_is_padded_at_its_end_and_shares_its_targets_table() -> None:
    data = generate(500, scale=1e-6, history=6)
    (item,) = data.schema.sequences
    assert (item.name, item.target, item.table_name, item.padding_id) == ("history", "C4", "C4", 0)
    past = data.ids[:, -6:]
    assert (past[:, 1:][past[:, :-1] == 0] == 0).all()
    assert set((past > 0).sum(axis=1)) == set(range(7))


def test_tasks_are_related_but_not_the_same() -> None:
    labels = generate(20_000, scale=1e-6, tasks=2).labels
    assert labels.shape == (20_000, 2)
    assert 0.05 < np.corrcoef(labels.T)[0, 1] < 0.95


@pytest.mark.parametrize(
    "arguments", [{"rows": 0}, {"rows": 5, "scale": 0}, {"rows": 5, "scale": 2}, {"rows": 5, "tasks": 0}]
)
def test_bad_arguments_are_errors(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give at least one row"):
        generate(**arguments)  # type: ignore[arg-type]


def split_rows(data: Dataset, *shares: float, seed: int | None = None) -> list[np.ndarray]:
    return [part.ids for part in data.split(*shares, seed=seed)]


def test_a_split_keeps_each_row_once_and_in_order_unless_seeded() -> None:
    data = generate(101, scale=1e-6)
    np.testing.assert_array_equal(np.concatenate(split_rows(data, 0.5, 0.25, 0.25)), data.ids)
    shuffled = np.concatenate(split_rows(data, 0.5, 0.5, seed=1))
    assert not np.array_equal(shuffled, data.ids)
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(data.ids, axis=0))


@pytest.mark.parametrize(("shares", "message"), [((0.5, 0.4), "add up to 1"), ((0.99, 0.01), "too few")])
def test_a_split_that_cannot_be_is_an_error(shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(5, scale=1e-6).split(*shares)
