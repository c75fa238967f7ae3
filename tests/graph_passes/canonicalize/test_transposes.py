"""Hazard: a Transpose that is left out moves elements, or two are left out that aren't opposites."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.graph_passes.harness import agree, changes, op_types, optimize, parse

UNTURNED = "results are computed as their operands lie and not turned back"


def found(model: onnx.ModelProto, *shapes: tuple[int, ...]) -> list[str]:
    """The operators that are left, after what they give was compared."""
    result = optimize(model)
    names = [value.name for value in model.graph.input]
    for batch in (1, 5):
        rng = np.random.default_rng(batch)
        drawn = {n: rng.standard_normal([s or batch for s in shape]) for n, shape in zip(names, shapes, strict=True)}
        agree(model, result, {name: value.astype(np.float32) for name, value in drawn.items()})
    return op_types(result.model)


def test_rows_times_a_number_a_row() -> None:
    """How a cross network is written with a tensor product: the batch goes last and comes back."""
    model = parse(
        """(float[b,6] x, float[b] r) => (float[b,6] y) {
            t = Transpose <perm = [1, 0]> (x) m = Mul (t, r) u = Transpose <perm = [1, 0]> (m) y = Neg (u) }"""
    )
    assert UNTURNED in "".join(changes(optimize(model)))
    assert found(model, (0, 6), (0,)) == ["Reshape", "Mul", "Neg"]


@pytest.mark.parametrize("perms", [("perm = [1, 0, 2]", "perm = [1, 0, 2]"), ("perm = [2, 0, 1]", "perm = [1, 2, 0]")])
def test_two_opposites_in_a_row(perms: tuple[str, str]) -> None:
    model = parse(
        f"(float[b,3,4] x) => (float[b,3,4] y) {{ t = Transpose <{perms[0]}> (x) u = Transpose <{perms[1]}> (t) y = Neg (u) }}"
    )
    assert found(model, (0, 3, 4)) == ["Neg"]


def test_without_an_order_axes_are_reversed() -> None:
    model = parse("(float[b,3,4] x) => (float[b,3,4] y) { t = Transpose (x) u = Transpose (t) y = Neg (u) }")
    assert found(model, (0, 3, 4)) == ["Neg"]


def test_two_that_are_no_opposites_stay() -> None:
    model = parse(
        "(float[b,3,3] x) => (float[b,3,3] y) { t = Transpose <perm = [1, 2, 0]> (x) u = Transpose <perm = [1, 2, 0]> (t) y = Neg (u) }"
    )
    assert found(model, (0, 3, 3)).count("Transpose") == 2


@pytest.mark.parametrize("shape", [(3, 1, 4), (3, 1, 1), (1, 4), (4,), ()])
def test_constants_are_turned(shape: tuple[int, ...]) -> None:
    model = parse(
        """(float[b,3,4] x) => (float[b,3,4] y) {
            t = Transpose <perm = [1, 0, 2]> (x) m = Mul (t, c) n = Abs (m) o = Sub (n, t)
            u = Transpose <perm = [1, 0, 2]> (o) y = Neg (u) }""",
        c=np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape),
    )
    assert found(model, (0, 3, 4)) == ["Mul", "Abs", "Sub", "Neg"]


def test_an_operand_that_would_have_to_move_keeps_its_transpose() -> None:
    model = parse(
        """(float[b,3,4] x, float[3,b,4] z) => (float[b,3,4] y) {
            t = Transpose <perm = [1, 0, 2]> (x) m = Mul (t, z) u = Transpose <perm = [1, 0, 2]> (m) y = Neg (u) }"""
    )
    assert found(model, (0, 3, 4), (3, 0, 4)).count("Transpose") == 2


def test_a_product_that_something_else_reads_keeps_its_transpose() -> None:
    model = parse(
        """(float[b,6] x, float[b] r) => (float[b,6] y, float[6,b] z) {
            t = Transpose <perm = [1, 0]> (x) m = Mul (t, r) u = Transpose <perm = [1, 0]> (m) y = Neg (u) z = Abs (m) }"""
    )
    assert found(model, (0, 6), (0,)).count("Transpose") == 2


def test_nothing_is_moved_into_a_loop() -> None:
    model = parse(
        """(float[b,6] x, float[b] r, int64 n, bool go) => (float[k,b,6] y) {
            t = Transpose <perm = [1, 0]> (x) m = Mul (t, r)
            y = Loop (n, go) <body = body (int64 i, bool c) => (bool d, float[b,6] o) {
                d = Identity (c) u = Transpose <perm = [1, 0]> (m) o = Neg (u) }>
        }"""
    )
    assert UNTURNED not in "".join(changes(optimize(model)))
