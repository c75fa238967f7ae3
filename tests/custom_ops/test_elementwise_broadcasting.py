"""Hazard: operands of all sizes that broadcast, read along all strides, and written into parts of joined values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpiframe.custom_ops._kernels import ElementwiseProgram
from dpiframe.custom_ops.elementwise_operators import NUMPY_TYPES
from tests.custom_ops import elementwise_reference as reference


def sizes_text(sizes: tuple[int, ...]) -> str:
    return "".join(f" {size}" for size in sizes)


def check(text: str, shapes: list[tuple[int, ...]], kind: str = "f32") -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-50, 50, shape).astype(NUMPY_TYPES[kind]) for shape in shapes]
    for instructions in ("best", "avx2", "baseline"):
        for block in (0, 1, 3):
            outputs = ElementwiseProgram(text, instructions, block).run(inputs)
            reference.compare(text, inputs, outputs)


@pytest.mark.parametrize("sizes", [(26, 16), (3, 5, 7), (1, 4), (2, 3, 4, 5), (417,), ()])
def test_every_pattern_of_ones(sizes: tuple[int, ...]) -> None:
    patterns = [tuple(n if keep else 1 for n, keep in zip(sizes, bits, strict=True)) for bits in masks(len(sizes))]
    patterns += [sizes[i:] for i in range(1, len(sizes) + 1)]
    for left, right in itertools.product(patterns, patterns):
        both = np.broadcast_shapes(left, right)
        for masks_of in ("xx", "x-", "-x"):
            text = f"elementwise 1\nrows 1\ninput f32 x\ninput f32 {masks_of[0]}{sizes_text(left)}\n"
            text += f"input f32 {masks_of[1]}{sizes_text(right)}\nsub f32{sizes_text(both)} : 1 2\noutput 3\n"
            rows = [(5,) if letter == "x" else () for letter in masks_of]
            check_once(text, [(5,), (*rows[0], *left), (*rows[1], *right)])


def masks(count: int) -> list[tuple[bool, ...]]:
    return list(itertools.product([True, False], repeat=count))


def check_once(text: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-50, 50, shape).astype(np.float32) for shape in shapes]
    reference.compare(text, inputs, ElementwiseProgram(text).run(inputs))


@pytest.mark.parametrize(
    "pattern", ["0 0 0", "0 1 1", "1 0 1", "1 1 0", "1 1 1", "2 0 0", "0 2 2", "2 2 1", "3 0 2", "3 3 0", "3 1 2"]
)
def test_where_with_every_operand_broadcast(pattern: str) -> None:
    sizes = [(6, 19), (19,), (6, 1), ()]
    condition, first, second = (sizes[int(i)] for i in pattern.split())
    both = np.broadcast_shapes(condition, first, second)
    text = f"elementwise 1\nrows 1\ninput f32 x{sizes_text(condition)}\ninput f32 x{sizes_text(first)}\n"
    text += f"input f32 x{sizes_text(second)}\nconst f32 0\ngt bool{sizes_text(condition)} : 0 3\n"
    text += f"where f32{sizes_text(both)} : 4 1 2\noutput 5\n"
    check(text, [(4, *condition), (4, *first), (4, *second)])


@pytest.mark.parametrize("kind", ["f32", "f16", "f64", "i32", "i64"])
@pytest.mark.parametrize(
    "view",
    [
        "12 5 : 0 1 12",  # transposed
        "60 : 59 -1",  # backwards
        "5 4 : 2 12 2",  # every other column
        "3 5 12 : 0 0 12 1",  # repeated
        "5 12 3 : 0 12 1 0",  # each element repeated
        "7 : 13 0",  # one element repeated
        "2 3 2 5 : 0 6 2 1 12",
        ": 17",
        "1 1 12 : 24 0 0 1",
    ],
)
def test_views(kind: str, view: str) -> None:
    sizes = view.split(":")[0].strip()
    head = f"{kind} {sizes}".strip()
    numbers = view.split(":")[1]
    # of an input and of a computed value; alone, as an operand, and viewed once more
    lines = [
        "elementwise 1\nrows 1",
        f"input {kind} x 5 12",
        f"add {kind} 5 12 : 0 0",
        f"view {head} : 0{numbers}",
        f"view {head} : 1{numbers}",
        f"mul {head} : 2 3",
        f"view {kind} 1 : 3 0 1",
        "output 2\noutput 3\noutput 4\noutput 5\n",
    ]
    check("\n".join(lines), [(9, 5, 12)], kind)


@pytest.mark.parametrize("kind", ["f32", "f16", "f64", "i64", "bool"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("lengths", [(1, 1), (9, 3, 1), (2, 16), (1, 2, 3, 4)])
def test_joins_of_values_made_in_place_copied_and_repeated(kind: str, axis: int, lengths: tuple[int, ...]) -> None:
    base = [3, 4, 5]
    lines = ["elementwise 1\nrows 1"]
    shapes = []
    for length in lengths:
        sizes = tuple(length if i == axis else size for i, size in enumerate(base))
        lines.append(f"input {kind} x{sizes_text(sizes)}")
        shapes.append((3, *sizes))
    count = len(lengths)
    for i in range(count):  # computed parts; the first is read again below
        name = "not" if kind == "bool" else "neg"
        lines.append(f"{name} {kind}{sizes_text(shapes[i][1:])} : {i}")
    whole = list(base)
    whole[axis] = 2 * sum(lengths) + lengths[0]
    parts = [*range(count, 2 * count), *range(count), count]
    lines.append(f"join {kind}{sizes_text(tuple(whole))} : {axis} {' '.join(map(str, parts))}")
    joined = 2 * count
    lines.append(f"{name} {kind}{sizes_text(tuple(whole))} : {joined}")
    lines.append(f"{name} {kind}{sizes_text(shapes[0][1:])} : {count}")
    outer = (2 * whole[0], *whole[1:])
    lines.append(f"join {kind}{sizes_text(outer)} : 0 {joined} {joined + 1}")
    lines += [f"output {i}" for i in (joined + 3, joined + 2, joined, joined)]
    check("\n".join([*lines, ""]), shapes, kind)


def test_unsqueezed_values_are_joined() -> None:
    """As stacked embeddings are: computed, viewed with one more axis, joined along it, and flattened."""
    lines = ["elementwise 1\nrows 1", *("input f32 x 16" for _ in range(5))]
    lines += [f"tanh f32 16 : {i}" for i in range(5)]
    lines += [f"view f32 1 16 : {5 + i} 0 0 1" for i in range(5)]
    lines += ["join f32 5 16 : 0 10 11 12 13 14", "view f32 80 : 15 0 1", "output 16\noutput 7\n"]
    check("\n".join(lines), [(6, 16)] * 5)


@pytest.mark.parametrize("kind", ["f32", "bool", "f64"])
def test_picks(kind: str) -> None:
    upper = [i * 27 + j for i in range(27) for j in range(i)]
    indices = " ".join(map(str, upper))
    text = f"elementwise 1\nrows 1\ninput {kind} x 27 27\nview {kind} 27 27 : 0 0 1 27\n"
    text += f"pick {kind} 351 : 1 {indices}\npick {kind} 351 : 0 {indices}\njoin {kind} 702 : 0 2 3\n"
    check(text + "output 4\noutput 3\n", [(5, 27, 27)], kind)
