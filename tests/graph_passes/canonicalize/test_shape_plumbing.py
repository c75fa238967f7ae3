"""Hazard: a shape that was computed becomes a constant that is right for one batch size only."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.canonicalize.shape_plumbing import fix_shapes, solve_reshape
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import agree, op_types, optimize, parse


def canonical(model: onnx.ModelProto) -> onnx.ModelProto:
    bench = Workbench(model)
    Canonicalize()(bench)
    after = bench.to_model()
    onnx.checker.check_model(after, full_check=True)
    return after


def operand(model: onnx.ModelProto, op: str, index: int = 1) -> list[int]:
    node = next(n for n in model.graph.node if n.op_type == op)
    return next(numpy_helper.to_array(t).tolist() for t in model.graph.initializer if t.name == node.input[index])


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "target", "allow_zero", "want"),
    [
        (["b", 4], [-1, 4], False, ["b", 4]),
        (["b", 4], [-1], False, ["b#*4"]),
        (["b", 4], [-1, 2], False, ["b#*2", 2]),
        (["b", 4], [-1, 3], False, None),
        (["b#*4", 6], [-1, 12], False, ["b#*2", 12]),
        (["b#*4", 6], [-1, 24], False, ["b", 24]),
        (["b#*4", 6], [-1, 4, 6], False, ["b", 4, 6]),
        (["b#*4", 6], [-1, 48], False, None),
        (["b#*4"], ["b", -1], False, ["b", 4]),
        (["b#*4", 2], ["b#*4", -1], False, ["b#*4", 2]),
        (["b#*six", 2], [-1, 2], False, ["b#*six", 2]),
        (["b", 4, 2], [-1, 8], False, ["b", 8]),
        (["b", 4, 2], [0, -1], False, ["b", 8]),
        (["b", 4, 2], [0, 0, 0], False, ["b", 4, 2]),
        (["b", 4, 2], ["b", -1], False, ["b", 8]),
        (["b", 4, 2], ["n", -1], False, None),
        (["b", 4], [0, 0, 1], False, ["b", 4, 1]),
        (["b", 4], [0, 0, 0], False, None),
        (["b", 4], [0, 4], True, [0, 4]),
        (["b", "n", 4], [-1, 4], False, None),
        (["b", "n", 4], ["b", -1, 4], False, ["b", "n", 4]),
        (["b", None, 4], [-1, 4], False, None),
        ([6, 4], [-1, 8], False, [3, 8]),
        ([6, 4], [-1, 5], False, None),
        ([0, 4], [-1, 4], False, [0, 4]),
        ([0, 4], [-1, 0], False, [0, 4]),
        (["b", 4], ["b", 4], False, ["b", 4]),
        (None, [-1, 4], False, None),
        (None, [2, 4], False, [2, 4]),
    ],
)
def test_what_reshape_comes_to(shape: Any, target: Any, allow_zero: bool, want: Any) -> None:
    assert solve_reshape(shape, target, allow_zero) == want


RESHAPES = {
    "flatten": ("float[b,3,4] x", "c = Concat<axis=0>(u, v12) y = Reshape(x, c)", "float[b,12]", [-1, 12]),
    "split the last axis": (
        "float[b,6] x",
        "c = Concat<axis=0>(u, v2, v3) y = Reshape(x, c)",
        "float[b,2,3]",
        [-1, 2, 3],
    ),
    "rows to the end": ("float[b,6] x", "c = Concat<axis=0>(v6, u) y = Reshape(x, c)", "float[6,b]", [6, -1]),
}


def test_rows_of_a_batch_laid_out_flat_and_back() -> None:
    """What a product needs as a matrix is a batch of the same size again behind it, without a name in the file."""
    model = parse(
        """(float[b,4,6] x, float[b,4,1] w) => (float[b,4] y) {
            flat = Reshape(x, matrix) product = MatMul(flat, weight) back = Reshape(product, heads)
            factor = Squeeze(w, last) y = Mul(back, factor)
        }""",
        matrix=np.array([-1, 6]),
        heads=np.array([-1, 4]),
        last=np.array([2]),
        weight=floats(6, 1),
    )
    bench = Workbench(model)
    Canonicalize()(bench)
    shapes = {name: tensor.shape for name, tensor in bench.graph.tensors().items()}
    assert shapes["flat"] == ["b#*4", 6]
    assert shapes["product"] == ["b#*4", 1]
    assert shapes["back"] == ["b", 4]
    assert "#" not in onnx.printer.to_text(bench.to_model())


@pytest.mark.parametrize(("repeats", "want"), [((1, 3), ["b", 12]), ((1, 1), ["b", 4]), ((2, 1), None)])
def test_the_shape_that_a_tile_gives(repeats: tuple[int, int], want: Any) -> None:
    model = parse("(float[b,4] x) => (float[n,m] y) { t = Tile(x, times) y = Relu(t) }", times=np.array(repeats))
    bench = Workbench(model)
    bench.infer_shapes()
    fix_shapes(bench, [])
    found = {tensor.name: tensor.shape for tensor in bench.found_shapes.values()}
    assert found == ({} if want is None else {"t": want})


def test_branches_may_use_one_name_for_tensors_of_other_shapes() -> None:
    """What is found of one branch's `p` says nothing of the other's."""
    model = parse(
        """(float[b,16] x, bool c) => (float[n,m] y) {
            s = Shape<start=0, end=1>(x) two = Constant<value_ints=[2]>()
            y = If(c) <
                then_branch = t () => (float[n,m] r) {
                    k = Concat<axis=0>(s, squares) p = Reshape(x, k) q = Softmax(p) o = Neg(q) l = Constant<value_ints=[2]>()
                    r = ReduceSum<keepdims=0>(o, l)
                },
                else_branch = u () => (float[n,m] r) {
                    d = Mul(s, two) k = Concat<axis=0>(d, eight) p = Reshape(x, k) q = Softmax(p) o = Neg(q) r = Exp(o)
                }
            >
        }""",
        squares=np.array([4, 4]),
        eight=np.array([8]),
    )
    result = optimize(model, provider="cuda")
    cases = [{"x": floats(batch, 16), "c": np.array(taken)} for batch in (0, 1, 5) for taken in (True, False)]
    agree(model, result, *cases, tolerance=1e-6)


def test_the_shape_of_a_graphs_output_is_found_too() -> None:
    model = parse("(float[b,4] x) => (float[n,m] y) { r = Relu(x) y = Reshape(r, c) }", c=np.array([-1, 4]))
    bench = Workbench(model)
    Canonicalize()(bench)
    assert bench.graph.outputs[0].shape == ["b", 4]
    assert bench.to_model().graph.output == model.graph.output


@pytest.mark.parametrize("name", RESHAPES)
def test_a_computed_reshape(name: str) -> None:
    inputs, steps, output, want = RESHAPES[name]
    model = parse(
        f"({inputs}) => ({output} z) {{ s = Shape(x) g = Gather(s, zero) u = Unsqueeze(g, axis) {steps} z = Neg(y) }}",
        zero=np.array(0), axis=np.array([0]), v12=np.array([12]), v2=np.array([2]), v3=np.array([3]), v6=np.array([6]),
    )  # fmt: skip
    after = canonical(model)
    assert op_types(after) == ["Reshape", "Neg"]
    assert operand(after, "Reshape") == want
    shape = (3, 4) if "flatten" in name else (6,)
    agree(model, optimize(model), *({"x": floats(b, *shape)} for b in (1, 5)))


def test_two_unknown_dimensions_that_stay_where_they_are() -> None:
    model = parse(
        "(float[b,n,6] x) => (float[b,n,2,3] z) { s = Shape(x) f = Slice(s, v0, v2) c = Concat<axis=0>(f, v23) y = Reshape(x, c) z = Neg(y) }",
        v0=np.array([0]), v2=np.array([2]), v23=np.array([2, 3]),
    )  # fmt: skip
    after = canonical(model)
    assert op_types(after) == ["Reshape", "Neg"]
    assert operand(after, "Reshape") == [-1, 0, 2, 3]
    agree(model, optimize(model), {"x": floats(2, 5, 6)}, {"x": floats(1, 1, 6)}, {"x": floats(3, 1, 6)})


def test_two_unknown_dimensions_that_move_stay_computed() -> None:
    model = parse(
        """(float[b,n,6] x) => (float[n,b,6] z) {
            s = Shape(x) b = Gather(s, v0) n = Gather(s, v1)
            c = Concat<axis=0>(n, b, v6) y = Reshape(x, c) z = Neg(y)
        }""",
        v0=np.array([0]), v1=np.array([1]), v6=np.array([6]),
    )  # fmt: skip
    after = canonical(model)
    assert op_types(after)[-2:] == ["Reshape", "Neg"]
    assert "Concat" in op_types(after)
    agree(model, optimize(model), {"x": floats(2, 5, 6)}, {"x": floats(1, 3, 6)})


def test_a_product_of_two_unknown_dimensions_is_left_to_the_runtime() -> None:
    model = parse(
        """(float[b,n,6] x) => (float[m,6] z) {
            s = Shape(x) b = Gather(s, v0) n = Gather(s, v1)
            bn = Mul(b, n) c = Concat<axis=0>(bn, v6) y = Reshape(x, c) z = Neg(y)
        }""",
        v0=np.array([0]), v1=np.array([1]), v6=np.array([6]),
    )  # fmt: skip
    agree(model, optimize(model), {"x": floats(2, 5, 6)}, {"x": floats(1, 3, 6)})


def test_a_computed_expand_takes_the_inputs_own_sizes() -> None:
    # expand(-1, 3, -1)
    model = parse(
        """(float[b,1,4] x) => (float[b,3,4] z) {
            s = Shape(x) g = Gather(s, zero) u = Unsqueeze(g, axis)
            t = Concat<axis=0>(u, v3, v4)
            o = ConstantOfShape<value = int64[1] {1}>(v3)
            m = Mul(o, minus) e = Equal(t, m) w = Where(e, o, t)
            y = Expand(x, w) z = Neg(y)
        }""",
        zero=np.array(0), axis=np.array([0]), v3=np.array([3]), v4=np.array([4]), minus=np.array([-1]),
    )  # fmt: skip
    after = canonical(model)
    assert op_types(after) == ["Expand", "Neg"]
    assert operand(after, "Expand") == [1, 3, 4]
    agree(model, optimize(model), *({"x": floats(b, 1, 4)} for b in (0, 1, 5)))


def test_an_expand_to_another_inputs_batch_stays_computed() -> None:
    model = parse(
        "(float[1,4] x, float[b,2] w) => (float[b,4] z) { s = Shape(w) g = Gather(s, v0) t = Concat<axis=0>(g, v4) y = Expand(x, t) z = Neg(y) }",
        v0=np.array([0]), v4=np.array([4]),
    )  # fmt: skip
    after = canonical(model)
    assert "Shape" in op_types(after)
    agree(model, optimize(model), {"x": floats(1, 4), "w": floats(3, 2)}, {"x": floats(1, 4), "w": floats(1, 2)})


def test_a_computed_tile() -> None:
    model = parse(
        "(float[b,3] x) => (float[b,9] z) { s = Shape(x) n = Gather(s, v1) t = Concat<axis=0>(v1, n) y = Tile(x, t) z = Neg(y) }",
        v1=np.array([1]),
    )
    after = canonical(model)
    assert op_types(after) == ["Tile", "Neg"]
    agree(model, optimize(model), {"x": floats(2, 3)})


def test_a_tile_by_the_batch_stays_computed() -> None:
    model = parse(
        "(float[1,3] x, float[b] w) => (float[b,3] z) { n = Shape(w) t = Concat<axis=0>(n, v1) y = Tile(x, t) z = Neg(y) }",
        v1=np.array([1]),
    )
    agree(model, optimize(model), {"x": floats(1, 3), "w": floats(4)}, {"x": floats(1, 3), "w": floats(1)})


def test_shape_values_that_are_graph_outputs_stay() -> None:
    model = parse("(float[2,3] x) => (int64[2] s, float[2,3] y) { s = Shape(x) y = Neg(x) }")
    result = optimize(model)
    assert op_types(result.model) == ["Shape", "Neg"]
    agree(model, result, {"x": floats(2, 3)})


def test_shapes_that_follow_from_shapes_that_follow() -> None:
    steps = "\n".join(
        f"r{k} = Relu(x{k}) s{k} = Shape(r{k}) g{k} = Gather(s{k}, v0) t{k} = Concat<axis=0>(g{k}, v{k % 2 + 2}, v{3 - k % 2}) x{k + 1} = Reshape(r{k}, t{k})"
        for k in range(20)
    )
    model = parse(
        f"(float[b,6] x0) => (float[b,n,m] x20) {{ {steps} }}", v0=np.array([0]), v2=np.array([2]), v3=np.array([3])
    )
    after = canonical(model)
    assert set(op_types(after)) == {"Relu", "Reshape"}
    agree(model, optimize(model), {"x0": floats(4, 6)})


def test_names_for_new_operands_are_new() -> None:
    model = parse(
        """(float[b,3,4] x) => (float[b,12] z, int64[1] k) {
            s = Shape(x) g = Gather(s, v0) c = Concat<axis=0>(g, v12)
            y = Reshape(x, c) z = Neg(y)
            y_reshape = Size(x) k = Mul(y_reshape, v12)
        }""",
        v0=np.array([0]), v12=np.array([12]),
    )  # fmt: skip
    result = optimize(model)
    assert operand(result.model, "Reshape") == [-1, 12]
    agree(model, result, {"x": floats(2, 3, 4)})


def test_int32_shape_arithmetic_that_would_wrap_is_left_to_the_runtime() -> None:
    model = parse(
        "(float[2,3] x, int32[1] k) => (int32[1] y) { s = Shape(x) c = Cast<to=6>(s) g = Gather(c, v0) m = Mul(g, big) y = Add(m, k) }",
        v0=np.array([0]), big=np.array([2**30], np.int32),
    )  # fmt: skip
    agree(model, optimize(model), {"x": floats(2, 3), "k": np.array([1], np.int32)}, reference=False)


def test_branches_use_what_is_known_around_them() -> None:
    model = parse(
        """(float[b,3,4] x, bool f) => (float[b,12] y) {
            s = Shape(x) g = Gather(s, v0) c = Concat<axis=0>(g, v12)
            y = If (f) <
                then_branch = t () => (z) { z = Reshape(x, c) },
                else_branch = e () => (z) { n = Neg(x) z = Reshape(n, c) }
            >
        }""",
        v0=np.array([0]), v12=np.array([12]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == ["If"]
    for flag in (True, False):
        agree(model, result, {"x": floats(3, 3, 4), "f": np.array(flag)})


def test_fix_shapes_reports_what_it_did_and_then_does_nothing() -> None:
    model = parse(
        "(float[b,3,4] x) => (float[b,12] z) { s = Shape(x) g = Gather(s, v0) n = Gather(s, v12) c = Concat<axis=0>(g, v12) y = Reshape(x, c) z = Neg(y) }",
        v0=np.array([0]), v12=np.array([12]),
    )  # fmt: skip
    del model.graph.node[2]
    bench = Workbench(model)
    bench.infer_shapes()
    changes: list[str] = []
    assert fix_shapes(bench, changes)
    assert changes == ["1 computed shapes are constants now"]
    bench.tidy()
    bench.infer_shapes()
    assert not fix_shapes(bench, changes)


def test_allowzero_targets_are_not_given_zeros() -> None:
    model = parse(
        """(float[b,n,6] x) => (float[b,n,2,3] z) {
            s = Shape(x) f = Slice(s, v0, v2) c = Concat<axis=0>(f, v23) y = Reshape<allowzero=1>(x, c) z = Neg(y)
        }""",
        v0=np.array([0]), v2=np.array([2]), v23=np.array([2, 3]),
    )  # fmt: skip
    agree(model, optimize(model), {"x": floats(2, 5, 6)}, {"x": floats(0, 5, 6)}, {"x": floats(2, 0, 6)})
