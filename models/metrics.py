"""The two measures of a click-through-rate model, exact, in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def auc(labels: npt.ArrayLike, scores: npt.ArrayLike) -> float:
    """Area under the ROC curve: the chance that a random click scores above a random non-click, ties counting half.

    Computed from average ranks (the Mann-Whitney U statistic), without a curve to integrate, so that it is exact.

    Args:
        labels: 0 or 1, any shape.
        scores: any monotone score, the same number of values.

    Raises:
        ValueError: sizes that differ, a label other than 0 and 1, one class only, or a NaN score.
    """
    clicks, values = _check(labels, scores)
    positives = int(clicks.sum())
    negatives = clicks.size - positives
    if not positives or not negatives:
        raise ValueError("AUC needs clicks and non-clicks; all labels are the same")
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    # Twice the average rank of each distinct score, so that all sums stay in integers.
    twice_rank = 2 * np.cumsum(counts, dtype=np.int64) - counts + 1
    twice_sum = int(twice_rank[place.reshape(-1)][clicks].sum())
    return (twice_sum - positives * (positives + 1)) / (2 * positives * negatives)


def log_loss(labels: npt.ArrayLike, probabilities: npt.ArrayLike) -> float:
    """Mean negative log likelihood, in nats, in float64.

    Args:
        labels: 0 or 1, any shape.
        probabilities: of label 1, the same number of values; moved into [1e-7, 1 - 1e-7], about the resolution of
            float32.

    Raises:
        ValueError: sizes that differ, none at all, a label other than 0 and 1, or a NaN probability.
    """
    clicks, values = _check(labels, probabilities)
    if not clicks.size:
        raise ValueError("LogLoss of no rows is undefined")
    p = np.clip(values.astype(np.float64), 1e-7, 1 - 1e-7)
    return float(-np.where(clicks, np.log(p), np.log1p(-p)).mean())


def _check(labels: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[npt.NDArray[np.bool_], np.ndarray]:
    truth, values = np.asarray(labels).reshape(-1), np.asarray(scores).reshape(-1)
    if truth.size != values.size:
        raise ValueError(f"{truth.size} labels, but {values.size} scores")
    if not np.isin(truth, (0, 1)).all():
        raise ValueError("labels must be 0 or 1")
    if np.isnan(values).any():
        raise ValueError("a score is NaN")
    return truth.astype(bool), values
