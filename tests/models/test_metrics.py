"""AUC and LogLoss against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpiframe.models import auc, log_loss

# Few distinct scores, so that ties are common.
ROWS = st.lists(st.tuples(st.booleans(), st.sampled_from([-1.5, 0.0, 0.25, 0.5, 3.0])), min_size=2, max_size=40)


@given(ROWS.filter(lambda rows: len({label for label, _ in rows}) == 2))
def test_auc_is_the_share_of_ordered_pairs(rows: list[tuple[bool, float]]) -> None:
    clicks = [score for label, score in rows if label]
    others = [score for label, score in rows if not label]
    wins = sum(1.0 if click > other else 0.5 if click == other else 0.0 for click in clicks for other in others)
    labels, scores = zip(*rows, strict=True)
    assert auc(labels, scores) == wins / (len(clicks) * len(others))


def test_auc_is_exact_on_many_rows() -> None:
    random = np.random.default_rng(0)
    labels, scores = random.integers(0, 2, 3000), random.integers(0, 500, 3000).astype(np.float32)
    clicks, others = scores[labels == 1], scores[labels == 0]
    wins = (clicks[:, None] > others).sum() + 0.5 * (clicks[:, None] == others).sum()
    assert auc(labels, scores) == wins / (clicks.size * others.size)


@pytest.mark.parametrize(("scores", "expected"), [([0.1, 0.9], 1.0), ([0.9, 0.1], 0.0), ([0.5, 0.5], 0.5)])
def test_auc_at_its_ends(scores: list[float], expected: float) -> None:
    assert auc([0, 1], scores) == expected


def test_auc_orders_infinite_scores() -> None:
    assert auc([0, 1, 1], [-math.inf, 0.0, math.inf]) == 1.0


@given(st.lists(st.tuples(st.booleans(), st.floats(0.001, 0.999)), min_size=1, max_size=30))
def test_log_loss_is_the_mean_negative_log_likelihood(rows: list[tuple[bool, float]]) -> None:
    labels, values = zip(*rows, strict=True)
    expected = -sum(math.log(p if label else 1 - p) for label, p in rows) / len(rows)
    assert log_loss(labels, values) == pytest.approx(expected, rel=1e-12)


def test_log_loss_of_a_certain_mistake_is_finite() -> None:
    assert log_loss([1, 0], [0.0, 1.0]) == pytest.approx(-math.log(1e-7))


@pytest.mark.parametrize("measure", [auc, log_loss])
@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([0, 1], [0.5], "2 labels, but 1 scores"),
        ([0, 2], [0.5, 0.5], "labels must be 0 or 1"),
        ([0, 1], [0.5, math.nan], "a score is NaN"),
    ],
)
def test_what_cannot_be_measured_is_an_error(
    measure: type, labels: list[int], scores: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        measure(labels, scores)


def test_auc_of_one_class_is_an_error() -> None:
    with pytest.raises(ValueError, match="all labels are the same"):
        auc([1, 1], [0.1, 0.2])


def test_log_loss_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rows"):
        log_loss([], [])
