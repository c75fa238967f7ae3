"""Hazard: bags are taken for equally long that aren't; or their lookups, as plain nodes, give something else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.graph_passes.bag_models import scan_loop, sequence_loop
from tests.graph_passes.harness import FP32_TOLERANCE, agree, blocks, changes, op_types, optimize

FORMS = [scan_loop, sequence_loop]
REPLACED = "loops over equally long bags are lookups"
SHAPE = "batch_shape = Shape (matrix)\nbatch = Gather <axis = 0> (batch_shape, zero)\n"
FLAT = SHAPE + "ids = Reshape (matrix, minus_one)\nsteps = Range (zero, batch, one)\noffsets = Mul (steps, three)\n"
MATRIX = "int64[n, 3] matrix"
THREE = {"three": np.array(3), "four": np.array(4)}


def cases(length: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(length)
    return [{"matrix": random.integers(-20, 20, (batch, length))} for batch in (1, 6)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_a_fixed_number_of_ids_becomes_a_pool(form: Callable[..., onnx.ModelProto], op: str) -> None:
    model = form(op, before=FLAT, inputs=MATRIX, constants=THREE)
    result = optimize(model)
    assert REPLACED in changes(result)
    assert op_types(result.model) == ["FusedMultiGather"]
    assert blocks(result) == [f"pool 0 0 4 {op} 3 0", *(f"term 0 0:{i} 0 one" for i in range(3))]
    agree(model, result, *cases(3), tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("form", FORMS)
def test_weights_go_along(form: Callable[..., onnx.ModelProto]) -> None:
    before = FLAT + "weights = Reshape (weight_matrix, minus_one)\n"
    model = form(weighted=True, before=before, inputs=f"{MATRIX}, float[n, 3] weight_matrix", constants=THREE)
    # the exporters' own input of weights isn't one here
    del model.graph.input[2]
    result = optimize(model)
    assert blocks(result)[1:] == [f"term 0 0:{i} 0 col 1 {i}" for i in range(3)]
    made = [
        case | {"weight_matrix": np.linspace(-1, 1, case["matrix"].size, dtype=np.float32).reshape(-1, 3)}
        for case in cases(3)
    ]
    agree(model, result, *made, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_one_id_a_bag_is_a_lookup(form: Callable[..., onnx.ModelProto], op: str) -> None:
    before = "id_shape = Shape (ids)\nbatch = Gather <axis = 0> (id_shape, zero)\noffsets = Range (zero, batch, one)\n"
    model = form(op, before=before, inputs="int64[n] ids")
    result = optimize(model)
    assert op_types(result.model) == ["Gather"] or not result.fused
    assert REPLACED in changes(result)
    assert "Loop" not in op_types(optimize(model, bad_ids="clamp").model)
    agree(
        model,
        optimize(model, bad_ids="clamp"),
        {"ids": np.arange(7)},
        {"ids": np.array([-1])},
        tolerance=FP32_TOLERANCE,
    )


@pytest.mark.parametrize("form", FORMS)
def test_as_many_ids_a_bag_as_a_matrix_is_wide(form: Callable[..., onnx.ModelProto]) -> None:
    before = (
        "whole_shape = Shape (matrix)\nwidth = Gather <axis = 0> (whole_shape, one)\n"
        "total = ReduceProd <keepdims = 0> (whole_shape)\noffsets = Range (zero, total, width)\n"
        "ids = Reshape (matrix, minus_one)\n"
    )
    model = form(before=before, inputs="int64[n, p] matrix")
    result = optimize(model)
    assert blocks(result) == ["pool 0 0 4 sum 1 0", "term 0 0:* 0 one"]
    agree(model, result, *cases(3), *cases(5), tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_bounds_that_fill_the_list(op: str) -> None:
    """What a table of lengths gives that are all 1: also where the last bag ends with the list, which is its bound."""
    before = SHAPE + (
        "all = Mul (batch, three)\nall_1d = Reshape (all, minus_one)\nones_flat = Expand (one, all_1d)\n"
        "lengths = Reshape (ones_flat, three_rows)\nsums = CumSum (lengths, minus_one_scalar)\n"
        "bounds = Concat <axis = -1> (zeros_column, sums)\noffsets = Gather <axis = 0> (bounds, one)\n"
        "turned = Transpose <perm = [1, 0]> (matrix)\nlist = Reshape (turned, minus_one)\n"
        "sizes = ReduceSum <keepdims = 0> (lengths, one_1d)\nids_0, ids, ids_2 = Split <axis = 0> (list, sizes)\n"
    )
    constants = {
        **THREE,
        "three_rows": np.array([3, -1]),
        "zeros_column": np.zeros((3, 1), np.int64),
        "minus_one_scalar": np.array(-1),
    }
    model = sequence_loop(op, bounds=True, before=before, inputs=MATRIX, constants=constants)
    result = optimize(model, bad_ids="clamp")
    assert op_types(result.model) == ["FusedMultiGather"]
    assert blocks(result) == ["row 0 0 4 0 0:1 0"]
    agree(model, result, *cases(3), tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "change",
    [
        ("offsets = Mul (steps, three)", "offsets = Mul (steps, four)"),
        ("offsets = Mul (steps, three)", "offsets = Add (steps, three)"),
        ("steps = Range (zero, batch, one)", "steps = Range (one, batch, one)"),
    ],
)
def test_bags_of_other_lengths_keep_their_offsets(
    form: Callable[..., onnx.ModelProto], change: tuple[str, str]
) -> None:
    model = form(before=FLAT, inputs=MATRIX, constants=THREE, change=change)
    result = optimize(model)
    assert REPLACED not in changes(result)
    assert blocks(result)[0].startswith("bag ")
    agree(model, result, cases(3)[1], tolerance=FP32_TOLERANCE)


def test_constant_offsets_of_a_fixed_batch() -> None:
    constants = {"offsets": np.array([0, 3, 6, 9])}
    model = scan_loop(before="ids = Reshape (matrix, minus_one)", inputs="int64[4, 3] matrix", constants=constants)
    result = optimize(model)
    assert blocks(result)[0] == "pool 0 0 4 sum 3 0"
    agree(model, result, {"matrix": np.arange(12).reshape(4, 3)}, tolerance=FP32_TOLERANCE)
    constants = {"offsets": np.array([0, 3, 6, 8])}
    model = scan_loop(before="ids = Reshape (matrix, minus_one)", inputs="int64[4, 3] matrix", constants=constants)
    result = optimize(model)
    assert REPLACED not in changes(result)
    agree(model, result, {"matrix": np.arange(12).reshape(4, 3)}, tolerance=FP32_TOLERANCE)
