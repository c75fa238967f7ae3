"""Hazard: an operator that moves elements moves them elsewhere in the program, or moves them between rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.elementwise.programs import floats, lines_of, refusal_of
from tests.graph_passes.harness import parse

CASES = ({"x": floats(5, 3, 4)}, {"x": floats(1, 3, 4)})


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("text", "shape", "constants", "line"),
    [
        ("Reshape(x, c)", "b,12", {"c": ints(0, 12)}, "view f32 12 : 0 0 1"),
        ("Reshape(x, c)", "b,12", {"c": ints(-1, 12)}, "view f32 12 : 0 0 1"),
        ("Reshape(x, c)", "b,12", {"c": ints(0, -1)}, "view f32 12 : 0 0 1"),
        ("Reshape(x, c)", "b,2,2,3", {"c": ints(0, 2, -1, 3)}, "view f32 2 2 3 : 0 0 6 3 1"),
        ("Reshape(x, c)", "b,3,2,2", {"c": ints(0, 0, 2, 2)}, "view f32 3 2 2 : 0 0 4 2 1"),
        ("Flatten(x)", "b,12", {}, "view f32 12 : 0 0 1"),
        ("Flatten<axis=-2>(x)", "b,12", {}, "view f32 12 : 0 0 1"),
        ("Unsqueeze(x, c)", "b,1,3,4", {"c": ints(1)}, "view f32 1 3 4 : 0 0 0 4 1"),
        ("Unsqueeze(x, c)", "b,3,4,1", {"c": ints(-1)}, "view f32 3 4 1 : 0 0 4 1 0"),
        ("Transpose<perm=[0,2,1]>(x)", "b,4,3", {}, "view f32 4 3 : 0 0 1 4"),
        ("Slice(x, s, e, a)", "b,2,4", {"s": ints(1), "e": ints(99), "a": ints(1)}, "view f32 2 4 : 0 4 4 1"),
        ("Slice(x, s, e, a)", "b,3,2", {"s": ints(-3), "e": ints(-1), "a": ints(-1)}, "view f32 3 2 : 0 1 4 1"),
        (
            "Slice(x, s, e, a, t)",
            "b,3,2",
            {"s": ints(0), "e": ints(4), "a": ints(2), "t": ints(2)},
            "view f32 3 2 : 0 0 4 2",
        ),
        (
            "Slice(x, s, e, a, t)",
            "b,3,4",
            {"s": ints(2, 3), "e": ints(-(1 << 62), -99), "a": ints(1, 2), "t": ints(-1, -1)},
            "view f32 3 4 : 0 11 -4 -1",
        ),
        (
            "Slice(x, s, e, a, t)",
            "b,1,4",
            {"s": ints(2), "e": ints(-2), "a": ints(1), "t": ints(-2)},
            "view f32 1 4 : 0 8 0 1",
        ),
        ("Gather<axis=1>(x, c)", "b,4", {"c": np.array(1)}, "view f32 4 : 0 4 1"),
        ("Gather<axis=1>(x, c)", "b,1,4", {"c": ints(-1)}, "view f32 1 4 : 0 8 0 1"),
        ("Gather<axis=-1>(x, c)", "b,3,2", {"c": ints(0, 2)}, "view f32 3 2 : 0 0 4 2"),
        ("Gather<axis=2>(x, c)", "b,3,2,2", {"c": np.array([[0, 1], [2, 3]])}, "view f32 3 2 2 : 0 0 4 2 1"),
        (
            "Gather<axis=1>(x, c)",
            "b,4,4",
            {"c": ints(0, 2, 2, 1)},
            "pick f32 4 4 : 0 0 1 2 3 8 9 10 11 8 9 10 11 4 5 6 7",
        ),
        ("Expand(x, c)", "b,3,4", {"c": ints(1, 1, 1)}, None),
        ("Tile(x, c)", "b,3,4", {"c": ints(1, 1, 1)}, None),
        ("Identity(x)", "b,3,4", {}, None),
    ],
)
def test_one_view(text: str, shape: str, constants: dict[str, np.ndarray], line: str | None) -> None:
    model = parse(f"(float[b,3,4] x) => (float[{shape}] y) {{ y = {text} }}", **constants)
    assert lines_of(model, *CASES) == ([line] if line else [])


def test_no_rows_at_all() -> None:
    model = parse("(float[b,3,4] x) => (float[b,2,2,3] y) { y = Reshape(x, c) }", c=ints(-1, 2, 2, 3))
    assert lines_of(model, {"x": floats(0, 3, 4)}) == ["view f32 2 2 3 : 0 0 6 3 1"]


def test_squeeze() -> None:
    model = parse("(float[b,1,4] x) => (float[b,4] y) { y = Squeeze(x, c) }", c=ints(-2))
    assert lines_of(model, {"x": floats(3, 1, 4)}) == ["view f32 4 : 0 0 1"]
    older = parse("(float[b,1,4] x) => (float[b,4] y) { y = Squeeze<axes=[1]>(x) }", opset=11)
    assert lines_of(older, {"x": floats(3, 1, 4)}) == ["view f32 4 : 0 0 1"]
    older = parse("(float[b,4] x) => (float[b,1,4] y) { y = Unsqueeze<axes=[1]>(x) }", opset=11)
    assert lines_of(older, {"x": floats(3, 4)}) == ["view f32 1 4 : 0 0 0 1"]


def test_squeezing_whatever_is_1() -> None:
    """The batch may be 1 as well."""
    model = parse("(float[8,1,4] x) => (float[8,4] y) { y = Squeeze(x) }")
    assert refusal_of(model) == "it squeezes whatever axis is of size 1"


def test_expand() -> None:
    model = parse("(float[b,1,4] x) => (float[b,3,4] y) { y = Expand(x, c) }", c=ints(1, 3, 1))
    assert lines_of(model, {"x": floats(2, 1, 4)}) == ["view f32 3 4 : 0 0 0 1"]


def test_an_expansion_beside_something_of_its_size_is_left_to_broadcasting() -> None:
    model = parse(
        """(float[b,1,4] q, float[b,3,4] k) => (float[b,3,16] y) {
            wide = Expand(q, c) d = Sub(wide, k) p = Mul(wide, k) y = Concat<axis=2>(wide, k, d, p)
        }""",
        c=ints(1, 3, 1),
    )
    assert lines_of(model, {"q": floats(2, 1, 4), "k": floats(2, 3, 4)}) == [
        *("view f32 3 4 : 0 0 0 1", "sub f32 3 4 : 0 1", "mul f32 3 4 : 0 1", "join f32 3 16 : 1 2 1 3 4"),
    ]


@pytest.mark.parametrize("times", [(1, 2), (3, 1), (2, 2)])
def test_tile(times: tuple[int, int]) -> None:
    shape = f"b,{3 * times[0]},{4 * times[1]}"
    model = parse(f"(float[b,3,4] x) => (float[{shape}] y) {{ y = Tile(x, c) }}", c=ints(1, *times))
    assert lines_of(model, *CASES)


def test_split() -> None:
    model = parse(
        "(float[b,6] x) => (float[b,1] p, float[b,3] q, float[b,2] r) { p, q, r = Split<axis=1>(x, c) }",
        c=ints(1, 3, 2),
    )
    assert lines_of(model, {"x": floats(3, 6)}) == [
        *("view f32 1 : 0 0 0", "view f32 3 : 0 1 1", "view f32 2 : 0 4 1"),
    ]


def test_split_into_equal_parts() -> None:
    newer = parse("(float[b,5] x) => (float[b,3] p, float[b,2] q) { p, q = Split<axis=-1,num_outputs=2>(x) }")
    assert lines_of(newer, {"x": floats(3, 5)}) == ["view f32 3 : 0 0 1", "view f32 2 : 0 3 1"]
    older = parse("(float[b,4] x) => (float[b,2] p, float[b,2] q) { p, q = Split<axis=1>(x) }", opset=11)
    assert lines_of(older, {"x": floats(3, 4)}) == ["view f32 2 : 0 0 1", "view f32 2 : 0 2 1"]
    older = parse("(float[b,4] x) => (float[b,1] p, float[b,3] q) { p, q = Split<axis=1,split=[1,3]>(x) }", opset=11)
    assert lines_of(older, {"x": floats(3, 4)}) == ["view f32 1 : 0 0 0", "view f32 3 : 0 1 1"]


def test_concat() -> None:
    text = "(float[b,3] x, float[b,2] z) => (float[b,8] y) { y = Concat<axis=-1>(x, z, x) }"
    assert lines_of(parse(text), {"x": floats(2, 3), "z": floats(2, 2)}) == ["join f32 8 : 0 0 1 0"]
    text = "(float[b,1,4] x, float[b,2,4] z) => (float[b,3,4] y) { y = Concat<axis=1>(x, z) }"
    assert lines_of(parse(text), {"x": floats(2, 1, 4), "z": floats(2, 2, 4)}) == ["join f32 3 4 : 0 0 1"]
    text = "(float[b,3] x) => (float[b,3] y) { y = Concat<axis=1>(x) }"
    assert lines_of(parse(text), {"x": floats(2, 3)}) == []


def test_parts_of_a_join_are_the_parts() -> None:
    """Each field's row out of the join of all of them."""
    model = parse(
        """(float[b,1,4] x, float[b,1,4] z) => (float[b,4] y) {
            e = Concat<axis=1>(x, z) p, q = Split<axis=1,num_outputs=2>(e) m = Mul(p, q) y = Squeeze(m, c)
        }""",
        c=ints(1),
    )
    assert lines_of(model, {"x": floats(2, 1, 4), "z": floats(2, 1, 4, seed=1)}) == [
        "mul f32 1 4 : 0 1",
        "view f32 4 : 2 0 1",
    ]


def test_views_with_two_row_axes() -> None:
    model = parse("(float[b,l,4] x) => (float[b,l,2,2] y) { y = Reshape(x, c) }", c=ints(0, 0, 2, 2))
    assert lines_of(model, {"x": floats(2, 3, 4)}) == ["view f32 2 2 : 0 0 2 1"]
    model = parse("(float[b,l,4] x) => (float[b,l,3] y) { y = Gather<axis=2>(x, c) }", c=ints(3, 0, 0))
    assert lines_of(model, {"x": floats(2, 3, 4)}) == ["pick f32 3 : 0 3 0 0"]


@pytest.mark.parametrize(
    ("text", "shape", "constants", "reason"),
    [
        ("Transpose<perm=[1,0,2]>(x)", "8,8,4", {}, "it moves the batch axis"),
        ("Transpose(x)", "8,8,8", {}, "it moves the batch axis"),
        ("Slice(x, s, e, a)", "8,8,4", {"s": ints(0), "e": ints(8), "a": ints(0)}, "it works across rows"),
        ("Gather<axis=0>(x, c)", "8,8,4", {"c": np.arange(8)}, "it works across rows"),
        ("Gather<axis=1>(x, c)", "8,1,4", {"c": ints(8)}, "it picks what isn't there"),
        ("Gather<axis=1>(x, c)", "8,1,4", {"c": ints(-9)}, "it picks what isn't there"),
        ("Concat<axis=0>(x)", "8,8,4", {}, "it works across rows"),
    ],
)
def test_what_moves_rows(text: str, shape: str, constants: dict[str, np.ndarray], reason: str) -> None:
    """In a model of a fixed batch the shapes alone would not tell."""
    source = "8,8,8" if shape == "8,8,8" else "8,8,4"
    model = parse(f"(float[{source}] x) => (float[{shape}] y) {{ y = {text} }}", **constants)
    assert refusal_of(model) == reason


def test_operands_that_are_computed() -> None:
    model = parse("(float[b,4] x, int64[2] c) => (float[b,4] y) { y = Reshape(x, c) }")
    assert refusal_of(model)
    model = parse("(float[b,3] x, int64[1] s) => (float[b,3] y) { y = Slice(x, s, e, a) }", e=ints(3), a=ints(1))
    assert refusal_of(model)


def test_operands_that_no_runtime_would_take() -> None:
    model = parse("(float[b,3] x) => (float[b,3] y) { y = Transpose<perm=[0,5]>(x) }")
    assert refusal_of(model)
    model = parse("(float[b,3] x) => (float[b,3] y) { y = Slice(x, s, e, a) }", s=ints(0), e=ints(3), a=ints(7))
    assert refusal_of(model)
