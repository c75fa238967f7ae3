"""Hazard: pieces of a flat list are taken for rows of a matrix though their sizes are others."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.graph_passes.harness import agree, changes, fuse_all, op_types, optimize, parse, table

PICKED = "matrices that are split flat are picked from by row"
SIZES = (
    "shape = Shape (x)\nrows = Gather <axis = 0> (shape, zero)\nrows_1d = Reshape (rows, minus_one)\n"
    "sizes = Concat <axis = 0> (rows_1d, rows_1d, rows_1d)\n"
)
CONSTANTS = {
    "zero": np.array(0),
    "minus_one": np.array([-1]),
    "two_1d": np.array([2]),
    "tables": table(9, 2),
}


def model_of(nodes: str, sizes: str = SIZES, inputs: str = "int64[n, 3] x") -> onnx.ModelProto:
    text = f"""({inputs}) => (float[n, 6] y) {{
        {sizes}
        {nodes}
        rows_a = Gather (tables, a)
        rows_b = Gather (tables, b)
        rows_c = Gather (tables, c)
        y = Concat <axis = 1> (rows_a, rows_b, rows_c)
    }}"""
    return parse(text, **CONSTANTS)


def case(batch: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(batch).integers(0, 9, (batch, 3))}


def test_fields_of_a_turned_matrix_become_columns() -> None:
    model = model_of(
        "turned = Transpose <perm = [1, 0]> (x)\nflat = Reshape (turned, minus_one)\na, b, c = Split <axis = 0> (flat, sizes)"
    )
    result = optimize(model)
    assert PICKED in changes(result)
    assert op_types(result.model) == ["FusedMultiGather"]
    agree(model, result, case(1), case(5))


def test_a_matrix_that_is_not_turned_has_other_rows() -> None:
    """[n, 3] laid out flat and cut into three pieces of n elements: a piece is no column."""
    model = model_of("flat = Reshape (x, minus_one)\na, b, c = Split <axis = 0> (flat, sizes)")
    result = fuse_all(model)
    assert PICKED not in changes(result)
    agree(model, result, case(2), case(5))


@pytest.mark.parametrize(
    "sizes",
    [
        SIZES.replace("Concat <axis = 0> (rows_1d, rows_1d, rows_1d)", "Concat <axis = 0> (two_1d, two_1d, two_1d)"),
        SIZES.replace("zero)", "zero)\nother = Identity (k)").replace(
            "rows_1d, rows_1d, rows_1d", "rows_1d, k, rows_1d"
        ),
    ],
)
def test_pieces_of_sizes_that_are_no_rows_stay(sizes: str) -> None:
    model = model_of(
        "turned = Transpose <perm = [1, 0]> (x)\nflat = Reshape (turned, minus_one)\na, b, c = Split <axis = 0> (flat, sizes)",
        sizes,
        "int64[n, 3] x, int64[1] k",
    )
    result = fuse_all(model)
    assert PICKED not in changes(result)
    agree(model, result, {**case(2), "k": np.array([2])})


def test_a_piece_that_is_an_output_stays() -> None:
    model = model_of(
        "turned = Transpose <perm = [1, 0]> (x)\nflat = Reshape (turned, minus_one)\na, b, c = Split <axis = 0> (flat, sizes)"
    )
    model.graph.output.append(onnx.helper.make_tensor_value_info("b", 7, ["n"]))
    result = fuse_all(model)
    assert PICKED not in changes(result)
    agree(model, result, case(3))
