"""Hazard: a product of matrices is taken for a cheap one, or its axes are confused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.elementwise.programs import floats, lines_of, refusal_of
from tests.graph_passes.harness import parse

PRODUCT = "it is a product of matrices"


# a matrix and a vector


def test_gemm_with_one_column() -> None:
    model = parse("(float[b,5] x) => (float[b,1] y) { y = Gemm<transB=1>(x, w, c) }", w=floats(1, 5), c=floats(1))
    assert lines_of(model, {"x": floats(3, 5)}, {"x": floats(0, 5)})[:2] == ["mul f32 5 : 0 1", "sum f32 1 : 2 0"]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_the_bias_of_a_gemm(shape: tuple[int, ...]) -> None:
    model = parse("(float[b,5] x) => (float[b,1] y) { y = Gemm(x, w, c) }", w=floats(5, 1), c=np.full(shape, 0.5, "f"))
    assert lines_of(model, {"x": floats(3, 5)}) == [
        *("view f32 5 : 1 0 1", "mul f32 5 : 0 2", "sum f32 1 : 3 0", "const f32 5e-01", "add f32 1 : 4 5"),
    ]


def test_the_factors_of_a_gemm() -> None:
    model = parse(
        "(float[b,5] x) => (float[b,1] y) { y = Gemm<alpha=2.0,beta=0.5,transB=1>(x, w, c) }",
        w=floats(1, 5),
        c=floats(1),
    )
    lines_of(model, {"x": floats(3, 5)})
    model = parse("(float[b,5] x) => (float[b,1] y) { y = Gemm<alpha=0.5>(x, w) }", w=floats(5, 1))
    assert lines_of(model, {"x": floats(3, 5)})[-2:] == ["const f32 5e-01", "mul f32 1 : 4 5"]


def test_a_gemm_with_a_row_of_biases() -> None:
    model = parse("(float[b,5] x, float[b,1] c) => (float[b,1] y) { y = Gemm(x, w, c) }", w=floats(5, 1))
    assert lines_of(model, {"x": floats(3, 5), "c": floats(3, 1)})[-1] == "add f32 1 : 5 2"


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_of_one_number_a_row(transposed: int) -> None:
    """Each numeric field's own projection."""
    weight = floats(4, 1) if transposed else floats(1, 4)
    model = parse(
        f"(float[b,1] x) => (float[b,4] y) {{ y = Gemm<transB={transposed}>(x, w, c) }}", w=weight, c=floats(4)
    )
    lines = lines_of(model, {"x": floats(3, 1)})
    assert lines[-2].startswith("mul f32 4")
    assert lines[-1].startswith("add f32 4")


@pytest.mark.parametrize(
    ("x", "w", "y", "lines"),
    [
        ("b,5", (5, 1), "b,1", ["view f32 5 : 1 0 1", "mul f32 5 : 0 2", "sum f32 1 : 3 0"]),
        ("b,5", (5,), "b", ["mul f32 5 : 0 1", "sum f32 : 2 0"]),
        ("b,3,5", (5, 1), "b,3,1", ["view f32 5 : 1 0 1", "mul f32 3 5 : 0 2", "sum f32 3 1 : 3 1"]),
        ("b,3,5", (5,), "b,3", ["mul f32 3 5 : 0 1", "sum f32 3 : 2 1"]),
        ("b,1", (1, 4), "b,4", ["mul f32 4 : 0 1"]),
        ("b,3,1", (1, 4), "b,3,4", ["mul f32 3 4 : 0 1"]),
        ("b,2,3,5", (5, 1), "b,2,3,1", ["view f32 5 : 1 0 1", "mul f32 2 3 5 : 0 2", "sum f32 2 3 1 : 3 2"]),
    ],
)
def test_matmul_with_a_vector(x: str, w: tuple[int, ...], y: str, lines: list[str]) -> None:
    sizes = [3, *map(int, x.split(",")[1:])]
    model = parse(f"(float[{x}] x) => (float[{y}] y) {{ y = MatMul(x, w) }}", w=floats(*w))
    assert lines_of(model, {"x": floats(*sizes)}) == lines


def test_a_vector_of_weights_on_the_left() -> None:
    model = parse("(float[b,5,3] x) => (float[b,1,3] y) { y = MatMul(w, x) }", w=floats(1, 5))
    lines = lines_of(model, {"x": floats(2, 5, 3)})
    assert lines[-1].startswith("sum f32 1 3 : ")


def test_a_vector_over_an_axis_of_dynamic_length() -> None:
    model = parse("(float[b,l,5] x) => (float[b,l,1] y) { y = MatMul(x, w) }", w=floats(5, 1))
    assert lines_of(model, {"x": floats(2, 3, 5)})[1] == "mul f32 5 : 0 2"


def test_a_product_in_double_precision_and_in_half() -> None:
    model = parse("(double[b,5] x) => (double[b,1] y) { y = MatMul(x, w) }", w=floats(5, 1, dtype="float64"))
    assert lines_of(model, {"x": floats(3, 5, dtype="float64")})[1] == "mul f64 5 : 0 2"
    model = parse("(float16[b,5] x) => (float16[b,1] y) { y = MatMul(x, w) }", w=floats(5, 1, dtype="float16"))
    assert lines_of(model, {"x": floats(3, 5, dtype="float16")})[-1] == "cast f16 1 : 6"


@pytest.mark.parametrize(
    ("text", "x", "y", "w"),
    [
        ("MatMul(x, w)", "b,5", "b,4", (5, 4)),
        ("MatMul(x, w)", "b,3,5", "b,3,4", (5, 4)),
        ("MatMul(w, x)", "b,5,3", "b,4,3", (4, 5)),
        ("Gemm(x, w)", "b,5", "b,4", (5, 4)),
        ("Gemm<transB=1>(x, w)", "b,5", "b,4", (4, 5)),
    ],
)
def test_products_of_matrices(text: str, x: str, y: str, w: tuple[int, ...]) -> None:
    model = parse(f"(float[{x}] x) => (float[{y}] y) {{ y = {text} }}", w=floats(*w))
    assert refusal_of(model, products=1 << 14) == PRODUCT


def test_products_across_rows() -> None:
    model = parse("(float[8,8] x) => (float[8,8] y) { y = Gemm<transA=1>(x, w) }", w=floats(8, 8))
    assert refusal_of(model) == PRODUCT
    model = parse("(float[8,8] x) => (float[8,8] y) { y = MatMul(w, x) }", w=floats(8, 8))
    assert refusal_of(model) == PRODUCT
    model = parse("(float[8,8] x, float[8,8] z) => (float[8,8] y) { y = MatMul(x, z) }")
    assert refusal_of(model) == PRODUCT


# two row values


def test_a_weighted_sum_of_a_rows_vectors() -> None:
    """Attention's last step."""
    model = parse("(float[b,1,7] a, float[b,7,4] k) => (float[b,1,4] y) { y = MatMul(a, k) }")
    assert lines_of(model, {"a": floats(3, 1, 7), "k": floats(3, 7, 4)}) == [
        *("view f32 7 1 : 0 0 1 0", "mul f32 7 4 : 2 1", "sum f32 1 4 : 3 0"),
    ]


def test_scores_of_a_rows_vectors() -> None:
    model = parse("(float[b,7,4] k, float[b,4,1] q) => (float[b,7,1] y) { y = MatMul(k, q) }")
    assert lines_of(model, {"k": floats(3, 7, 4), "q": floats(3, 4, 1)}) == [
        *("view f32 4 : 1 0 1", "mul f32 7 4 : 0 2", "sum f32 7 1 : 3 1"),
    ]


def test_the_outer_product_of_a_cross_layer() -> None:
    model = parse("(float[b,5,1] x, float[b,1,1] s) => (float[b,5,1] y) { y = MatMul(x, s) }")
    lines_of(model, {"x": floats(3, 5, 1), "s": floats(3, 1, 1)})
    model = parse("(float[b,5,1] x, float[b,1,4] s) => (float[b,5,4] y) { y = MatMul(x, s) }")
    assert lines_of(model, {"x": floats(3, 5, 1), "s": floats(3, 1, 4)}) == ["mul f32 5 4 : 0 1"]


def test_heads_beside_each_other() -> None:
    model = parse("(float[b,2,1,7] a, float[b,2,7,4] k) => (float[b,2,1,4] y) { y = MatMul(a, k) }")
    assert lines_of(model, {"a": floats(3, 2, 1, 7), "k": floats(3, 2, 7, 4)})[-1] == "sum f32 2 1 4 : 3 1"


def test_the_products_of_all_pairs_of_a_rows_vectors() -> None:
    model = parse(
        "(float[b,6,4] e) => (float[b,6,6] y) { t = Transpose<perm=[0,2,1]>(e) y = MatMul(e, t) }",
    )
    assert refusal_of(model, products=100) == PRODUCT
    assert lines_of(model, {"e": floats(3, 6, 4)}, products=1000) == [
        *("view f32 6 1 4 : 0 0 4 0 1", "mul f32 6 6 4 : 1 0", "sum f32 6 6 : 2 2"),
    ]


def test_operands_that_broadcast_within_a_product() -> None:
    model = parse("(float[b,1,3,5] x, float[b,2,5,4] z) => (float[b,2,3,4] y) { y = MatMul(x, z) }")
    assert refusal_of(model, products=1 << 14) == "its operands broadcast within a product"
    model = parse("(float[b,3,5] x, float[b,2,5,4] z) => (float[n,m,k,l] y) { y = MatMul(x, z) }")
    assert refusal_of(model, products=1 << 14)


# Einsum


@pytest.mark.parametrize(
    ("equation", "x", "z", "y"),
    [
        ("bi,bi->b", (5,), (5,), ()),
        ("bij,bi->bj", (5, 4), (5,), (4,)),
        ("bij,bj->bi", (5, 4), (4,), (5,)),
        ("bi,bj->bij", (5,), (4,), (5, 4)),
        ("bij,bij->bi", (5, 4), (5, 4), (5,)),
        ("bij,bij->bji", (5, 4), (5, 4), (4, 5)),
        ("bhd,bmd->bhmd", (3, 4), (2, 4), (3, 2, 4)),
        ("bi , bi -> b", (5,), (5,), ()),
        ("bik,bjk->bij", (3, 4), (2, 4), (3, 2)),
    ],
)
def test_einsum_of_two_row_values(equation: str, x: tuple[int, ...], z: tuple[int, ...], y: tuple[int, ...]) -> None:
    shapes = [",".join(map(str, ("b", *sizes))) for sizes in (x, z, y)]
    model = parse(
        f"(float[{shapes[0]}] x, float[{shapes[1]}] z) => (float[{shapes[2]}] y) "
        f'{{ y = Einsum<equation="{equation}">(x, z) }}'
    )
    assert lines_of(model, {"x": floats(3, *x), "z": floats(3, *z, seed=1)}, products=1000)


def test_einsum_with_a_weight() -> None:
    model = parse('(float[b,5] x) => (float[b] y) { y = Einsum<equation="bi,i->b">(x, w) }', w=floats(5))
    assert lines_of(model, {"x": floats(3, 5)}) == ["mul f32 5 : 0 1", "sum f32 : 2 0"]
    model = parse('(float[b,5] x) => (float[b,1] y) { y = Einsum<equation="bi,ij->bj">(x, w) }', w=floats(5, 1))
    assert lines_of(model, {"x": floats(3, 5)})[-1] == "sum f32 1 : 3 0"


@pytest.mark.parametrize(
    ("equation", "x", "z", "y", "reason"),
    [
        ("bi,bij->bj", "b,5", "b,5,6", "b,6", None),
        ("bik,bjk->bij", "b,3,4", "b,2,4", "b,3,2", PRODUCT),
        ("bi,bi", "b,5", "b,5", "n", "the shape of its result isn't known"),
        ("bi,ci->bc", "b,5", "c,5", "b,c", "its equation has another form"),
        ("b...,b...->b...", "b,5", "b,5", "b,5", "its equation has another form"),
        ("bii,bi->bi", "b,5,5", "b,5", "b,5", "it takes a diagonal"),
        ("ib,ib->bi", "5,b", "5,b", "b,5", "it works across rows"),
    ],
)
def test_other_einsums(equation: str, x: str, z: str, y: str, reason: str | None) -> None:
    model = parse(
        f'(float[{x}] x, float[{z}] z) => (float[{y}] y) {{ y = Einsum<equation="{equation}">(x, z) }}',
    )
    if reason is None:
        assert lines_of(model, {"x": floats(3, 5), "z": floats(3, 5, 6)})
    else:
        assert refusal_of(model)


def test_einsum_of_one_or_three_operands() -> None:
    model = parse('(float[b,5] x) => (float[b] y) { y = Einsum<equation="bi->b">(x) }')
    assert refusal_of(model) == "its equation has another form"
    model = parse('(float[b,5] x) => (float[b] y) { y = Einsum<equation="bi,bi,bi->b">(x, x, x) }')
    assert refusal_of(model) == "its equation has another form"
