"""Seeded click data in the shape of Criteo's, with structure for a model to find."""

from __future__ import annotations

import math

import numpy as np

from ..schema import FeatureSchema, SequenceField, SparseField
from .criteo import DENSE, SPARSE, log_transform
from .dataset import Dataset

# Distinct values of C1 ... C26 in the challenge's training file.
# fmt: off
CRITEO_VOCABULARIES = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)
# fmt: on

# A field keeps at least so many values when the vocabularies are scaled down, or all it has.
_SMALLEST = 100
_ZIPF = 1.1
_RANK = 4
_CLICK_RATE = 0.25
_LINEAR_SCALE = 0.2
_PAIRS = 12
_PAIR_SCALE = 0.17
_TARGET = "C4"
HISTORY = "history"


def generate(
    rows: int, *, scale: float = 1e-3, dim: int = 16, tasks: int = 1, history: int = 0, seed: int = 0
) -> Dataset:
    """Rows with 13 numeric and 26 categorical fields, whose clicks depend on values and on pairs of values.

    Ids follow a Zipf law in each field. The log-odds of a click are a sum of a weight for each value, a slope for each
    numeric field, and products of planted vectors for 12 pairs of fields; labels are drawn from it, about three in ten
    of them clicks. With a history, resemblance between it and the value of C4 raises the odds too.

    Args:
        rows: N.
        scale: share of the real vocabularies, between 0 and 1. Fields of fewer than 100 values keep all of them.
        dim: embedding length of every field in the schema.
        tasks: T, the labels a row; each later one has weights of its own on top of the first one's.
        history: length of a behaviour sequence on C4's table, padded with id 0; 0 leaves it out.
        seed: same seed, same rows.

    Returns:
        The rows, numeric fields log-transformed. Id 0 appears only as padding.

    Raises:
        ValueError: no rows, no task, or a scale out of range.
    """
    if rows < 1 or tasks < 1 or history < 0 or not 0 < scale <= 1:
        raise ValueError("give at least one row and one task, a history of 0 or more, and a scale above 0 and up to 1")
    random = np.random.default_rng(seed)
    sizes = [min(size, max(_SMALLEST, math.ceil(size * scale))) + 1 for size in CRITEO_VOCABULARIES]
    counts = random.lognormal(mean=1.0, sigma=1.2, size=(rows, len(DENSE))).astype(np.float32).round()
    dense = log_transform(counts)
    ids = np.stack([_zipf_ids(random, size, rows) for size in sizes], axis=1)
    vectors = [random.standard_normal((size, _RANK)).astype(np.float32) for size in sizes]

    past = np.zeros((rows, history), np.int64)
    affinity = np.zeros(rows, np.float32)
    target = SPARSE.index(_TARGET)
    if history:
        past = _zipf_ids(random, sizes[target], rows * history).reshape(rows, history)
        lengths = random.integers(0, history + 1, rows)
        past[np.arange(history) >= lengths[:, None]] = 0
        products = np.einsum("nd,nld->nl", vectors[target][ids[:, target]], vectors[target][past])
        affinity = (products * (past > 0)).sum(axis=1) / np.sqrt(np.maximum(lengths, 1))

    shared = _score(random, ids, dense, vectors, sizes) + 0.5 * affinity
    labels = np.empty((rows, tasks), np.float32)
    for task in range(tasks):
        score = shared if task == 0 else 0.7 * shared + 0.5 * _score(random, ids, dense, vectors, sizes)
        score += math.log(_CLICK_RATE / (1 - _CLICK_RATE)) - float(score.mean())
        labels[:, task] = random.random(rows) < 1 / (1 + np.exp(-score))
    schema = FeatureSchema(
        sparse=tuple(SparseField(name, size, dim) for name, size in zip(SPARSE, sizes, strict=True)),
        dense=DENSE,
        sequences=(SequenceField(HISTORY, sizes[target], dim, table=_TARGET, length=history, target=_TARGET),)
        if history
        else (),
    )
    return Dataset(schema, np.concatenate([ids, past], axis=1), dense, labels)


def _zipf_ids(random: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Ids 1 ... size - 1, the k-th most frequent with odds 1 / k^1.1, int64 [count]; which id is frequent is random."""
    odds = np.arange(1, size, dtype=np.float64) ** -_ZIPF
    ranks = np.searchsorted(np.cumsum(odds / odds.sum()), random.random(count), side="right")
    return random.permutation(size - 1)[np.minimum(ranks, size - 2)] + 1


def _score(
    random: np.random.Generator, ids: np.ndarray, dense: np.ndarray, vectors: list[np.ndarray], sizes: list[int]
) -> np.ndarray:
    """Planted log-odds, float32 [N]: linear terms and 12 pairs."""
    slopes = random.normal(scale=_LINEAR_SCALE, size=(dense.shape[1], 1)).astype(np.float32)
    score: np.ndarray = (dense @ slopes)[:, 0]
    for column, size in enumerate(sizes):
        weights = random.normal(scale=_LINEAR_SCALE, size=(size, 1)).astype(np.float32)
        score += weights[ids[:, column], 0]
    for _ in range(_PAIRS):
        left, right = random.choice(len(sizes), size=2, replace=False)
        products = (vectors[left][ids[:, left]] * vectors[right][ids[:, right]]).sum(axis=1)
        score += _PAIR_SCALE * products
    return score
