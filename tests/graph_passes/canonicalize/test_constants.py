"""Hazard: folding gives other bits than the runtime would have, reads a table, or makes the file grow."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.canonicalize.constants import (
    MAX_FOLD_BYTES,
    constant_nodes,
    fold_constants,
    is_small_constant,
)
from dpiframe.graph_passes.graphs import StoredValues, constant_values
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import agree, op_types, optimize, parse, session, table


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model after constants are folded, and nothing else."""
    bench = Workbench(model)
    for _ in range(4):
        bench.infer_shapes()
        constant_nodes(bench, [])
        fold_constants(bench, [])
        bench.tidy()
    after = bench.to_model()
    onnx.checker.check_model(after, full_check=True)
    return after


CONSTANTS = {
    "value = int64[2] {3, 4}": np.array([3, 4]),
    "value = float {2.5}": np.array(2.5, np.float32),
    "value_int = 7": np.array(7),
    "value_ints = [7, -8]": np.array([7, -8]),
    "value_float = 0.5": np.array(0.5, np.float32),
    "value_floats = [0.5, -1.5]": np.array([0.5, -1.5], np.float32),
}


@pytest.mark.parametrize("text", CONSTANTS)
def test_constant_nodes_become_initializers(text: str) -> None:
    want = CONSTANTS[text]
    kind = {"i": "int64", "f": "float"}[want.dtype.kind]
    model = parse(f"({kind}[2] x) => ({kind}[2] y) {{ c = Constant<{text}>() y = Add(x, c) }}")
    after = folded(model)
    assert op_types(after) == ["Add"]
    got = numpy_helper.to_array(after.graph.initializer[0])
    assert (got.dtype, got.tolist()) == (want.dtype, want.tolist())
    agree(model, optimize(model), {"x": np.array([1, 2]).astype(want.dtype)})


def test_constant_nodes_of_strings_and_sparse_tensors_stay() -> None:
    nodes = [
        helper.make_node("Constant", [], ["s"], value_strings=["a", "b"]),
        helper.make_node(
            "Constant",
            [],
            ["c"],
            sparse_value=helper.make_sparse_tensor(
                numpy_helper.from_array(np.array([5], np.float32), "v"), numpy_helper.from_array(np.array([1])), [3]
            ),
        ),
        helper.make_node("Identity", ["s"], ["t"]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("t", TensorProto.STRING, [2]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    bench = Workbench(model)
    assert all(constant_values(node) is None for node in bench.graph.nodes[:2])
    result = optimize(model)
    assert op_types(result.model).count("Constant") == 2
    np.testing.assert_array_equal(session(result.model).run(["y"], {"x": np.ones(3, np.float32)})[0], [1, 6, 1])


def test_a_constant_node_that_is_an_output_stays() -> None:
    model = parse(
        "(float[2] x) => (float[2] y, float[2] c) { c = Constant<value_floats = [1.0, 2.0]>() y = Add(x, c) }"
    )
    result = optimize(model)
    assert op_types(result.model) == ["Constant", "Add"]
    agree(model, result, {"x": np.zeros(2, np.float32)})


def test_constants_of_one_name_in_two_branches() -> None:
    model = parse(
        """(float[2] x, bool f) => (float[2] y) {
            y = If (f) <
                then_branch = t () => (z) { c = Constant<value_floats = [1.0, 2.0]>() z = Add(x, c) },
                else_branch = e () => (z) { c = Constant<value_floats = [3.0, 4.0]>() z = Add(x, c) }
            >
        }"""
    )
    result = optimize(model)
    for flag in (True, False):
        agree(model, result, {"x": np.zeros(2, np.float32), "f": np.array(flag)})


INTS = np.array([[7, -8, 0], [-9, 5, 3]])
FLOATS = np.array([[0.1, -2.5, 3e-9], [np.inf, -0.0, 7.7]], np.float32)
EXACT = {
    "Cast": ("Cast<to=7>(f)", "int64"),
    "Cast to float": ("Cast<to=1>(i)", "float"),
    "Cast to float16": ("Cast<to=10>(i)", "float16"),
    "Cast to bool": ("Cast<to=9>(i)", "bool"),
    "Shape": ("Shape<start=1>(f)", "int64"),
    "Size": ("Size(f)", "int64"),
    "Reshape": ("Reshape(f, back)", "float"),
    "Flatten": ("Flatten(f)", "float"),
    "Unsqueeze": ("Unsqueeze(f, one)", "float"),
    "Transpose": ("Transpose(f)", "float"),
    "Expand": ("Expand(f, bigger)", "float"),
    "Tile": ("Tile(f, two_one)", "float"),
    "Concat": ("Concat<axis=-1>(f, f)", "float"),
    "Slice": ("Slice(i, minus, least, one, minus)", "int64"),
    "Gather": ("Gather<axis=1>(f, minus)", "float"),
    "GatherElements": ("GatherElements<axis=1>(f, zeros)", "float"),
    "GatherND": ("GatherND(f, two_one_)", "float"),
    "NonZero": ("NonZero(i)", "int64"),
    "Trilu": ("Trilu<upper=0>(i)", "int64"),
    "Where": ("Where(truth, g, f)", "float"),
    "OneHot": ("OneHot(one, depth, on_off)", "float"),
    "ScatterElements": ("ScatterElements<axis=1>(f, zeros, g)", "float"),
    "Pad": ("Pad(f, pads)", "float"),
    "Compress": ("Compress<axis=1>(f, some)", "float"),
    "Add": ("Add(f, g)", "float"),
    "Sub": ("Sub(i, one)", "int64"),
    "Mul": ("Mul(f, g)", "float"),
    "Div": ("Div(f, g)", "float"),
    "Div of negative integers": ("Div(i, three)", "int64"),
    "Neg": ("Neg(f)", "float"),
    "Abs": ("Abs(f)", "float"),
    "Sqrt": ("Sqrt(g)", "float"),
    "Floor": ("Floor(f)", "float"),
    "Ceil": ("Ceil(f)", "float"),
    "Equal": ("Equal(i, one)", "bool"),
    "Less": ("Less(f, g)", "bool"),
    "LessOrEqual": ("LessOrEqual(f, f)", "bool"),
    "Greater": ("Greater(i, one)", "bool"),
    "GreaterOrEqual": ("GreaterOrEqual(i, one)", "bool"),
    "And": ("And(truth, truth)", "bool"),
    "Not": ("Not(truth)", "bool"),
    "Mod": ("Mod(i, three)", "int64"),
    "Mod with the sign of the dividend": ("Mod<fmod=1>(i, three)", "int64"),
    "Min": ("Min(i, one)", "int64"),
    "Max": ("Max(i, one)", "int64"),
    "CumSum": ("CumSum(i, one_)", "int64"),
    "ReduceSum": ("ReduceSum<keepdims=0>(i, one)", "int64"),
    "ReduceProd": ("ReduceProd<keepdims=0>(i, one)", "int64"),
    "ReduceMax": ("ReduceMax<keepdims=0>(i, one)", "int64"),
    "ReduceMin": ("ReduceMin<keepdims=0>(i, one)", "int64"),
}
OPERANDS = {
    "i": INTS, "f": FLOATS, "g": np.abs(FLOATS) + np.float32(0.3), "one": np.array([1]), "one_": np.array(1), "three": np.array([3]),
    "back": np.array([-1, 2]), "bigger": np.array([2, 1, 3]), "two_one": np.array([2, 1]), "minus": np.array([-1]),
    "least": np.array([-(2**63)]), "zeros": np.zeros((2, 3), np.int64), "two_one_": np.array([[1, 0], [0, 2]]),
    "truth": INTS > 0, "depth": np.array(3), "on_off": np.array([-1, 2], np.float32), "pads": np.array([0, 1, 1, 0]),
    "some": np.array([True, False, True]),
}  # fmt: skip


def constant_model(expression: str, kind: str, opset: int = 20) -> onnx.ModelProto:
    """A model that adds nothing to what constants give: one node of constants, read by an Identity of an input's
    choice."""
    rank = ["", "[n]", "[n,m]", "[n,m,k]"]
    used = {
        name: values
        for name, values in OPERANDS.items()
        if name in expression.replace("(", " ").replace(",", " ").replace(")", " ").split()
    }
    for shape in rank:
        model = parse(
            f"(bool c) => ({kind}{shape} y) {{ k = {expression} y = If (c) <then_branch = t () => (z) {{ z = Identity(k) }}, else_branch = e () => (z) {{ z = Identity(k) }}> }}",
            opset=opset,
            **used,
        )
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception:
            continue
        return model
    raise AssertionError(expression)


@pytest.mark.parametrize("name", EXACT)
def test_what_is_folded_has_the_bits_of_the_runtime(name: str) -> None:
    expression, kind = EXACT[name]
    model = constant_model(expression, kind)
    after = folded(model)
    assert op_types(after) == ["If"]
    want = session(model).run(None, {"c": np.array(True)})[0]
    got = session(after).run(None, {"c": np.array(True)})[0]
    assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


@pytest.mark.parametrize(
    ("expression", "kind", "opset"),
    [
        ("Softmax<axis=0>(f)", "float", 11),  # another operator before opset 13
        ("Exp(f)", "float", 20),
        ("Tanh(f)", "float", 20),
        ("MatMul(f, g)", "float", 20),
        ("ReduceSum<keepdims=0>(f, one)", "float", 20),
        ("Max(f, g)", "float", 20),
        ("RandomNormalLike(f)", "float", 20),
        ("Bernoulli(g)", "float", 20),
        ("Dropout(f)", "float", 20),
        ("Identity(f)", "float", 20),
    ],
)
def test_what_rounds_draws_or_copies_is_not_folded(expression: str, kind: str, opset: int) -> None:
    used = {n: OPERANDS[n] for n in ("f", "g", "one") if f"({n}" in expression or f" {n}" in expression}
    if "MatMul" in expression:
        used["g"] = used["g"].T.copy()
    model = parse(f"({kind}[n,m] x) => ({kind}[n,m] y) {{ k = {expression} y = Add(x, k) }}", opset=opset, **used)
    bench = Workbench(model)
    bench.infer_shapes()
    assert not fold_constants(bench, [])


def test_folding_reaches_through_chains_and_reports_them() -> None:
    model = parse(
        "(float[2] x) => (float[2] y) { a = Add(w, w) b = Mul(a, a) c = Neg(b) y = Add(x, c) }",
        w=np.ones(2, np.float32),
    )
    bench = Workbench(model)
    report = Canonicalize()(bench)
    assert op_types(bench.to_model()) == ["Add"]
    assert any("nodes of constants are folded" in line for line in report.changes)
    agree(model, optimize(model), {"x": np.zeros(2, np.float32)})


def test_a_weight_is_sliced_and_transposed_once_and_for_all() -> None:
    # the stacked weights of DCN-Mix
    model = parse(
        """(float[b,3] x) => (float[b,2] y) {
            zero = Constant<value_int=0>()
            one = Gather(W, zero)
            t = Transpose<perm=[1,0]>(one)
            y = MatMul(x, t)
        }""",
        W=np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32),
    )
    result = optimize(model)
    assert op_types(result.model) == ["MatMul"]
    assert [list(t.dims) for t in result.model.graph.initializer] == [[3, 2]]
    agree(model, result, {"x": table(4, 3)})


def test_folding_does_not_make_the_file_grow() -> None:
    model = parse(
        "(float[n,m] x) => (float[n,m] y) { k = Expand(one, shape) y = Add(x, k) }",
        one=np.ones((1, 1), np.float32), shape=np.array([512, 512]),
    )  # fmt: skip
    result = optimize(model)
    assert op_types(result.model) == ["Expand", "Add"]
    assert result.model.ByteSize() < 1000


@pytest.mark.parametrize("op", ["ConstantOfShape(shape)", "Range(zero, many, step)", "Tile(one, shape)"])
def test_what_grows_from_small_operands_stays(op: str) -> None:
    kind, rank = ("int64", "[n]") if op.startswith("Range") else ("float", "[n,m]")
    operands = {"shape": np.array([4096, 4096]), "one": np.ones((1, 1), np.float32)}
    operands |= {"zero": np.array(0), "many": np.array(1 << 24), "step": np.array(1)}
    used = {name: values for name, values in operands.items() if name in op}
    model = parse(f"({kind}{rank} x) => ({kind}{rank} y) {{ k = {op} y = Add(x, k) }}", **used)
    bench = Workbench(model)
    Canonicalize()(bench)
    assert len(op_types(bench.to_model())) == 2


def test_tables_are_neither_read_nor_copied() -> None:
    rows = MAX_FOLD_BYTES // 16 + 1
    model = parse(
        "(int64[b] a) => (float[b,4] y) { t = Neg(W) u = Neg(t) y = Gather(u, a) }",
        W=np.zeros((rows, 4), np.float32),
    )
    bench = Workbench(model)
    stored = bench.graph.nodes[0].inputs[0]
    Canonicalize()(bench)
    assert stored._values._array is None
    assert op_types(bench.to_model()) == ["Neg", "Neg", "Gather"]


def test_an_identity_of_a_small_table_stores_it_once() -> None:
    model = parse("(int64[b] a) => (float[b,4] y) { t = Identity(W) y = Gather(t, a) }", W=table(10, 4))
    bench = Workbench(model)
    Canonicalize()(bench)
    assert [t.name for t in bench.to_model().graph.initializer] == ["W"]


def test_external_data_is_never_opened() -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="there-is-no-such-file")
    model = parse("(float[2] x) => (float[2] y) { a = Neg(w) b = Cast<to=1>(w) c = Add(b, x) y = Add(a, c) }")
    model.graph.initializer.append(tensor)
    bench = Workbench(model)
    Canonicalize()(bench)
    after = bench.to_model()
    assert op_types(after) == ["Neg", "Add", "Add"]
    assert after.graph.initializer[0] == tensor


def test_what_may_be_read() -> None:
    small = gs.Constant("small", np.zeros(4, np.float32))
    assert is_small_constant(small)
    assert not is_small_constant(small, 15)
    assert is_small_constant(small, 16)
    assert not is_small_constant(gs.Variable("v", np.dtype(np.float32), [4]))
    odd = TensorProto(name="odd", data_type=TensorProto.BFLOAT16, dims=[1], raw_data=b"\0\0")
    assert not is_small_constant(gs.Constant("odd", StoredValues(odd)))
    huge = TensorProto(name="huge", data_type=TensorProto.FLOAT, dims=[1 << 40])
    assert not is_small_constant(gs.Constant("huge", StoredValues(huge)))


def test_an_overridable_initializer_is_no_constant() -> None:
    model = parse("(float[2] x, float[2] w) => (float[2] y) { n = Neg(w) y = Add(x, n) }", w=np.ones(2, np.float32))
    result = optimize(model)
    assert op_types(result.model) == ["Neg", "Add"]
    x = np.zeros(2, np.float32)
    agree(model, result, {"x": x}, {"x": x, "w": np.array([5, 6], np.float32)})


def test_folding_inside_branches() -> None:
    model = parse(
        """(float[2] x, bool f) => (float[2] y) {
            y = If (f) <
                then_branch = t () => (z) { n = Neg(w) z = Add(x, n) },
                else_branch = e () => (z) { n = Add(w, w) z = Add(x, n) }
            >
        }""",
        w=np.ones(2, np.float32),
    )
    result = optimize(model)
    assert [op_types(a.g) for a in result.model.graph.node[0].attribute] == [["Add"], ["Add"]]
    for flag in (True, False):
        agree(model, result, {"x": np.zeros(2, np.float32), "f": np.array(flag)})


def test_strings_are_left_alone() -> None:
    model = parse("(int64[1] x) => (string[1] y) { s = Gather(words, x) y = Concat<axis=0>(s) }")
    model.graph.initializer.append(helper.make_tensor("words", TensorProto.STRING, [2], [b"a", b"b"]))
    result = optimize(model)
    assert session(result.model).run(None, {"x": np.array([1])})[0].tolist() == ["b"]


def test_a_node_that_would_fail_stays_and_fails_where_it_did() -> None:
    model = parse(
        "(float[n] x) => (float[n] y) { g = Gather(w, far) y = Add(x, g) }", w=np.ones(2, np.float32), far=np.array([5])
    )
    bench = Workbench(model)
    Canonicalize()(bench)
    assert op_types(bench.to_model()) == ["Gather", "Add"]
