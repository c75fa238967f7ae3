"""Bags whose ids are all inside their table are pooled as the ids are read, the others with care.

Hazard: an id outside, or the padding, is taken for a row where a stretch of the list is looked at in one go; or ids
that no bag has are counted.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.custom_ops._kernels import LookupProgram
from tests.custom_ops import reference

ROWS = 50
STRETCH = 256  # ids that are looked at in one go


def check(ids: np.ndarray, offsets: np.ndarray, dim: int, op: str = "sum 0", **choices: str) -> LookupProgram:
    """Bits and counts of the reference. Offsets: one more than bags."""
    table = np.random.default_rng(dim).standard_normal((ROWS, dim)).astype(choices.get("dtype", "float32"))
    text = (
        f"lookup 1\nrows 1\nbad zero\nsource 1 bounds\nsource * list\ntable {ROWS} {dim}\noutput {dim}\n"
        f"bag 0 0 {dim} {op} 0 1:*{choices.get('steps', '')} 0 one 0:0 {choices.get('padding', 'none')}\n"
    )
    expected = reference.run(text, [offsets, ids], [table])
    for baseline in (False, True):
        program = LookupProgram(text, baseline)
        assert reference.same_bits(program.run([offsets, ids], [table], 2)[0], expected.outputs[0])
        assert program.bad_id_counts == expected.counts
    return program


def bags(longest: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(longest)
    offsets = np.concatenate([[0], np.cumsum(random.integers(0, longest + 1, count))])
    return random.integers(0, ROWS, offsets[-1]), offsets


@pytest.mark.parametrize("dim", [1, 3, 16, 48, 64, 65, 100, 128, 200])
@pytest.mark.parametrize("op", ["sum 0", "mean 0", "max -inf"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_width(dim: int, op: str, dtype: str) -> None:
    """Of bags that take several passes, some are longer than what is pooled between two."""
    ids, offsets = bags(40)
    check(ids, offsets, dim, op, dtype=dtype)
    check(ids.astype(np.int32), offsets, dim, op, dtype=dtype)


@pytest.mark.parametrize("bad", [-ROWS - 1, ROWS, 1 << 40, -(1 << 63)])
def test_one_id_outside_anywhere(bad: int) -> None:
    ids, offsets = bags(9)
    for place in (*range(0, len(ids), 7), len(ids) - 1):
        others = ids.copy()
        others[place] = bad
        check(others, offsets, 16)


@pytest.mark.parametrize("value", [-1, -ROWS, 7])
@pytest.mark.parametrize("padding", ["none", "7", "49"])
def test_ids_counted_from_the_end_and_padding(value: int, padding: str) -> None:
    ids, offsets = bags(30)
    ids[::11] = value
    check(ids, offsets, 16, "mean 0", padding=padding)


@pytest.mark.parametrize("steps", ["+3", "+-2", "%50", "/2", "*2", "+9223372036854775807"])
def test_arithmetic_on_ids(steps: str) -> None:
    ids, offsets = bags(30)
    check(ids, offsets, 16, steps=steps)


@pytest.mark.parametrize("length", [STRETCH - 1, STRETCH, STRETCH + 1, 3 * STRETCH])
def test_bags_as_long_as_a_stretch(length: int) -> None:
    random = np.random.default_rng(length)
    ids = random.integers(0, ROWS, 5 * length)
    check(ids, np.arange(6) * length, 32)
    ids[[length, 4 * length - 1]] = ROWS
    check(ids, np.arange(6) * length, 32)


def test_ids_of_no_bag_are_not_looked_at() -> None:
    """Before the first bag, behind the last, and between bags that are out of order."""
    ids = np.full(1000, 1 << 50)
    ids[100:200] = np.arange(100) % ROWS
    program = check(ids, np.array([100, 130, 130, 200]), 16)
    assert program.bad_id_counts == [0]
    check(ids, np.array([150, 200, 120, 140, 100]), 16)
