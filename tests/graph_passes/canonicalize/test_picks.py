"""Hazard: elements are picked in another order, from other axes, or from what isn't the batch's row."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import agree, op_types, optimize, parse, session

PAIRS = np.array([[0, 1], [0, 2], [1, 2], [-1, -3]])


def canonical(model: onnx.ModelProto) -> onnx.ModelProto:
    bench = Workbench(model)
    Canonicalize()(bench)
    after = bench.to_model()
    onnx.checker.check_model(after, full_check=True)
    for batch in (0, 1, 5):
        sizes = [d.dim_value or batch for d in model.graph.input[0].type.tensor_type.shape.dim]
        case = {"x": np.random.default_rng(batch).normal(size=sizes).astype(np.float32)}
        for before, now in zip(session(model).run(None, case), session(after).run(None, case), strict=True):
            np.testing.assert_array_equal(before, now)
    return after


def picking(shape: str, result: str, away: list[int], back: list[int], index: np.ndarray) -> onnx.ModelProto:
    return parse(
        f"""(float[{shape}] x) => (float[{result}] y) {{
            t = Transpose<perm={away}>(x) g = GatherND(t, index) p = Transpose<perm={back}>(g) y = Relu(p)
        }}""",
        index=index,
    )


def positions(model: onnx.ModelProto) -> list[int]:
    node = next(node for node in model.graph.node if node.op_type == "Gather")
    return next(numpy_helper.to_array(t).tolist() for t in model.graph.initializer if t.name == node.input[1])


def test_pairs_of_an_interaction() -> None:
    """Z[:, i, j] by the dynamo exporter."""
    model = canonical(picking("b,3,3", "b,4", [1, 2, 0], [1, 0], PAIRS))
    assert op_types(model) == ["Reshape", "Gather", "Relu"]
    assert positions(model) == [1, 2, 5, 6]


def test_columns_of_a_matrix() -> None:
    model = canonical(picking("b,5", "b,3", [1, 0], [1, 0], np.array([[4], [0], [-2]])))
    assert op_types(model) == ["Gather", "Relu"]
    assert positions(model) == [4, 0, 3]


def test_vectors_of_a_sequence() -> None:
    model = canonical(picking("b,3,4", "b,2,4", [1, 2, 0], [2, 0, 1], np.array([[2], [0]])))
    assert op_types(model) == ["Gather", "Relu"]
    assert positions(model) == [2, 0]


def test_vectors_with_the_batch_in_the_middle() -> None:
    """E[:, i] by the dynamo exporter."""
    model = canonical(picking("b,3,4", "b,4,4", [1, 0, 2], [1, 0, 2], np.array([[0], [0], [1], [-1]])))
    assert op_types(model) == ["Gather", "Relu"]
    assert positions(model) == [0, 0, 1, 2]
    model = canonical(picking("b,3,2,4", "b,2,4", [1, 2, 0, 3], [1, 0, 2], np.array([[0, 1], [2, 0]])))
    assert op_types(model) == ["Reshape", "Gather", "Relu"]
    assert positions(model) == [1, 4]
    model = canonical(picking("b,3,2,4", "b,2,2,4", [1, 2, 0, 3], [2, 0, 1, 3], np.array([[0], [2]])))
    assert op_types(model) == ["Gather", "Relu"]


def test_pairs_of_vectors() -> None:
    model = canonical(picking("b,2,3,4", "b,2,4", [1, 2, 3, 0], [2, 0, 1], np.array([[1, 2], [0, 1]])))
    assert op_types(model) == ["Reshape", "Gather", "Relu"]
    assert positions(model) == [5, 1]


def test_a_table_of_pairs() -> None:
    model = canonical(picking("b,3,3", "b,2,2", [1, 2, 0], [2, 0, 1], PAIRS.reshape(2, 2, 2)))
    assert positions(model) == [[1, 2], [5, 6]]


@pytest.mark.parametrize(
    ("shape", "result", "away", "back"),
    [
        # another axis than the batch comes last, or it doesn't come back to the front
        ("b,3,3", "n,m", [2, 1, 0], [1, 0]),
        ("b,3,3", "n,m", [1, 2, 0], [0, 1]),
        ("b,3,3", "n,m", [1, 0, 2], [1, 0]),
        ("3,3,b", "n,m", [0, 1, 2], [1, 0]),
        # sizes that aren't known
        ("b,l,3", "n,m", [1, 2, 0], [1, 0]),
    ],
)
def test_other_orders_stay(shape: str, result: str, away: list[int], back: list[int]) -> None:
    model = picking(shape, result, away, back, PAIRS[:3])
    bench = Workbench(model)
    Canonicalize()(bench)
    assert "GatherND" in op_types(bench.to_model())


def test_indices_that_are_not_there_stay_an_error() -> None:
    bench = Workbench(picking("b,3,3", "b,1", [1, 2, 0], [1, 0], np.array([[3, 0]])))
    Canonicalize()(bench)
    assert "GatherND" in op_types(bench.to_model())


def test_a_graphs_output_keeps_its_node() -> None:
    model = parse(
        "(float[b,3,3] x) => (float[b,4] y) { t = Transpose<perm=[1,2,0]>(x) g = GatherND(t, index) y = Transpose<perm=[1,0]>(g) }",
        index=PAIRS,
    )
    assert op_types(canonical(model)) == ["Transpose", "GatherND", "Transpose"]


def test_indices_given_at_run_time_stay() -> None:
    model = parse(
        """(float[b,3,3] x, int64[4,2] index) => (float[b,4] y) {
            t = Transpose<perm=[1,2,0]>(x) g = GatherND(t, index) p = Transpose<perm=[1,0]>(g) y = Relu(p)
        }"""
    )
    bench = Workbench(model)
    Canonicalize()(bench)
    assert op_types(bench.to_model()) == ["Transpose", "GatherND", "Transpose", "Relu"]


def test_the_whole_pipeline() -> None:
    model = picking("b,3,3", "b,4", [1, 2, 0], [1, 0], PAIRS)
    agree(model, optimize(model), {"x": np.arange(18, dtype=np.float32).reshape(2, 3, 3)})


def selecting(rows: str, mask: np.ndarray, target: int, spread: str = "x") -> onnx.ModelProto:
    """What torch's masked_select becomes."""
    sizes = np.array([-1, target])
    return parse(
        f"""(float[{rows}] x) => (float[r,{target}] y) {{
            s = Shape({spread}) e = Expand(mask, s) n = NonZero(e) i = Transpose<perm=[1,0]>(n)
            g = GatherND(x, i) p = Reshape(g, sizes) y = Relu(p)
        }}""",
        mask=mask,
        sizes=sizes,
    )


@pytest.mark.parametrize("leading", [(), (1,)])
def test_a_selection_by_a_mask(leading: tuple[int, ...]) -> None:
    mask = np.triu(np.ones((3, 3), bool), 1).reshape(*leading, 3, 3)
    model = canonical(selecting("b,3,3", mask, 3))
    assert op_types(model) == ["Reshape", "Gather", "Relu"]
    assert positions(model) == [1, 2, 5]


def test_a_mask_that_broadcasts() -> None:
    model = canonical(selecting("b,2,3", np.array([True, False, True]), 4))
    assert positions(model) == [0, 2, 3, 5]


@pytest.mark.parametrize(
    ("rows", "mask", "target"),
    [
        ("2,3", np.array([[True, False, False], [True, True, True]]), 4),  # rows that differ
        ("b,4", np.array([True, True, True, True]), 2),  # rows in halves
    ],
)
def test_other_selections_stay(rows: str, mask: np.ndarray, target: int) -> None:
    assert "GatherND" in op_types(canonical(selecting(rows, mask, target)))


def test_a_mask_that_is_wider_than_the_rows_stays() -> None:
    """No runtime computes that, and no pass fails over it."""
    bench = Workbench(selecting("b,3", np.ones(4, bool), 3))
    Canonicalize()(bench)
    assert "GatherND" in op_types(bench.to_model())
