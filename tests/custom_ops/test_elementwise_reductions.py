"""Hazard: reductions over any axes: NaN, single elements, long runs, wrapping integers, and sums of products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpiframe.custom_ops._kernels import ElementwiseProgram
from dpiframe.custom_ops.elementwise_operators import NUMPY_TYPES
from tests.custom_ops import elementwise_reference as reference

INSTRUCTIONS = ["best", "avx2", "baseline"]


def check(text: str, inputs: list[np.ndarray]) -> None:
    for instructions, block in itertools.product(INSTRUCTIONS, (0, 2)):
        reference.compare(text, inputs, ElementwiseProgram(text, instructions, block).run(inputs))


def reduction(name: str, kind: str, sizes: tuple[int, ...], axes: tuple[int, ...], keep: bool = False) -> str:
    left = [size if i not in axes else 1 for i, size in enumerate(sizes) if keep or i not in axes]
    head = " ".join(map(str, [name, kind, *left]))
    return (
        f"elementwise 1\nrows 1\ninput {kind} x {' '.join(map(str, sizes))}\n{head} : 0 {' '.join(map(str, axes))}\n"
        + ("output 1\n")
    )


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("kind", ["f32", "f16", "f64", "i32", "i64"])
def test_every_choice_of_axes(name: str, kind: str) -> None:
    sizes = (3, 5, 1, 17)
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((4, *sizes)) * 3).astype(NUMPY_TYPES[kind])
    for count in (1, 2, 3, 4):
        for axes in itertools.combinations(range(4), count):
            for keep in (False, True):
                check(reduction(name, kind, sizes, axes, keep), [x])


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 64, 100, 257])
def test_one_nan_anywhere_is_the_result(name: str, length: int) -> None:
    for sizes, axis in (((length,), 0), ((length, 5), 0), ((5, length), 1)):
        text = reduction(name, "f32", sizes, (axis,))
        rng = np.random.default_rng(length)
        rows = length
        x = rng.standard_normal((rows, *sizes)).astype(np.float32)
        for row in range(rows):  # row i has its NaN at place i
            x[(row, row) if len(sizes) == 1 else (row, row, 2) if axis == 0 else (row, 2, row)] = np.nan
        for instructions in INSTRUCTIONS:
            (y,) = ElementwiseProgram(text, instructions).run([x])
            np.testing.assert_array_equal(y, getattr(np, name)(x, axis=axis + 1))
            assert np.isnan(y).sum() == rows


@pytest.mark.parametrize("length", [1, 2, 5, 10, 15, 16, 17, 26, 39, 50, 63, 64, 65, 256, 416, 1000, 100_000])
def test_sums_of_any_length_are_near_the_exact_ones(length: int) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((3, length)).astype(np.float32)
    exact = x.astype(np.float64).sum(axis=1)
    for instructions in INSTRUCTIONS:
        (y,) = ElementwiseProgram(reduction("sum", "f32", (length,), (0,)), instructions).run([x])
        assert (np.abs(y - exact) <= 1e-6 * np.abs(x).sum(axis=1)).all()
    (y,) = ElementwiseProgram(reduction("sum", "f32", (length, 1), (0,))).run([x.reshape(3, length, 1)])
    assert (np.abs(y[:, 0] - exact) <= 1e-6 * np.abs(x).sum(axis=1)).all()


def test_infinities_and_nan_in_sums() -> None:
    x = np.array([[1, np.inf, 2], [np.inf, -np.inf, 0], [np.nan, 1, 1], [3e38, 3e38, 0]], np.float32)
    (y,) = ElementwiseProgram(reduction("sum", "f32", (3,), (0,))).run([x])
    np.testing.assert_array_equal(y, np.array([np.inf, np.nan, np.nan, np.inf], np.float32))


def test_integers_wrap() -> None:
    x = np.full((2, 3), 2**31 - 1, np.int32)
    (y,) = ElementwiseProgram(reduction("sum", "i32", (3,), (0,))).run([x])
    np.testing.assert_array_equal(y, x.sum(axis=1, dtype=np.int32))


def test_halves_are_summed_as_floats() -> None:
    x = np.full((1, 5000), 1, np.float16)  # in halves the sum would stop at 2048
    (y,) = ElementwiseProgram(reduction("sum", "f16", (5000,), (0,))).run([x])
    assert y[0] == 5000


PRODUCTS = {
    "dot": "input f32 x 4 37\ninput f32 x 4 37\nmul f32 4 37 : 0 1\nsum f32 4 : 2 1",
    "squares": "input f32 x 26 16\ninput f32 x\nmul f32 26 16 : 0 0\nsum f32 16 : 2 0",
    "squares as powers": "input f32 x 26 16\nconst f32 2\npow f32 26 16 : 0 1\nsum f32 16 : 2 0",
    "all squares": "input f32 x 26 16\ninput f32 x\nmul f32 26 16 : 0 0\nsum f32 : 2 0 1",
    "row times weight": "input f32 x 416\ninput f32 - 416\nmul f32 416 : 0 1\nsum f32 1 : 2 0",
    "masked": "input f32 x 50 16\ninput f32 x 50 1\nmul f32 50 16 : 0 1\nsum f32 16 : 2 0",
    "masked, mask first": "input f32 x 50 1\ninput f32 x 50 16\nmul f32 50 16 : 0 1\nsum f32 16 : 2 0",
    "masked by one for all": "input f32 x 50 16\ninput f32 - 50 1\nmul f32 50 16 : 0 1\nsum f32 16 : 2 0",
    "scaled": "input f32 x 5 9\ninput f32 x 5 1\nmul f32 5 9 : 0 1\nsum f32 5 : 2 1",
    "matrix times weight": "input f32 x 6 1 8\ninput f32 - 7 8\nmul f32 6 7 8 : 0 1\nsum f32 6 7 : 2 2",
    "matrix times weight, columns": "input f32 x 6 8 1\ninput f32 - 8 7\nmul f32 6 8 7 : 0 1\nsum f32 6 7 : 2 1",
    "weight first": "input f32 - 7 8\ninput f32 x 6 1 8\nmul f32 6 7 8 : 0 1\nsum f32 6 7 : 2 2",
    "vector times matrix": "input f32 x 8 1\ninput f32 - 8 19\nmul f32 8 19 : 0 1\nsum f32 19 : 2 0",
    "matrix times matrix": "input f32 x 5 6 1\ninput f32 x 1 6 19\nmul f32 5 6 19 : 0 1\nsum f32 5 19 : 2 1",
    "batches": "input f32 x 3 5 1 8\ninput f32 x 3 1 6 8\nmul f32 3 5 6 8 : 0 1\nsum f32 3 5 6 : 2 3",
    "outer over two axes": "input f32 x 3 4 5\ninput f32 x 3 4 5\nmul f32 3 4 5 : 0 1\nsum f32 4 : 2 0 2",
    "doubles": "input f64 x 6 9\ninput f64 x 6 9\nmul f64 6 9 : 0 1\nsum f64 9 : 2 0",
    "integers": "input i64 x 6 9\ninput i64 x 6 9\nmul i64 6 9 : 0 1\nsum i64 9 : 2 0",
    "halves": "input f16 x 6 9\ninput f16 x 6 9\nmul f16 6 9 : 0 1\nsum f16 9 : 2 0",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_sums_of_products(name: str) -> None:
    text = f"elementwise 1\nrows 1\n{PRODUCTS[name]}\noutput 3\n"
    check(text, inputs_for(text))
    # the product is read once more
    check(text + "output 2\n", inputs_for(text))


def inputs_for(text: str, rows: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = []
    for line in text.splitlines():
        name, kind, *rest = line.split()
        if name == "input":
            shape = ((rows,) if rest[0] == "x" else ()) + tuple(map(int, rest[1:]))
            inputs.append((rng.standard_normal(shape) * 4).astype(NUMPY_TYPES[kind]))
    return inputs


@pytest.mark.parametrize("fields", [2, 3, 16, 27, 40])
@pytest.mark.parametrize("dim", [1, 4, 16])
def test_all_pairs_of_a_rows_vectors(fields: int, dim: int) -> None:
    """E times its transpose, which two views, a product and a sum make."""
    pairs = f"{fields} {fields} {dim}"
    text = f"elementwise 1\nrows 1\ninput f32 x {fields} {dim}\nview f32 {pairs} : 0 0 {dim} 0 1\n"
    text += f"view f32 {pairs} : 0 0 0 {dim} 1\nmul f32 {pairs} : 1 2\nsum f32 {fields} {fields} : 3 2\n"
    indices = [i * fields + j for i in range(fields) for j in range(i)]
    text += f"pick f32 {len(indices)} : 4 {' '.join(map(str, indices))}\noutput 5\noutput 4\n"
    check(text, inputs_for(text))
