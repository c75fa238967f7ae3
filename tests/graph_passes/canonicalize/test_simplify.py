"""Hazard: a node that has an effect is taken for one that has none."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

from dpiframe.graph_passes.canonicalize.simplify import RULES, remove_no_ops, same_shape
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import agree, op_types, optimize, parse

CONSTANTS = {
    "v0": np.array([0]), "v1": np.array([1]), "v2": np.array([2]), "v4": np.array([4]), "far": np.array([2**63 - 1]), "minus": np.array([-1]),
    "shape": np.array([-1, 4]), "flat": np.array([-1]), "one_one": np.array([1, 1]), "two_one": np.array([2, 1]), "same": np.array([0, 4]),
    "zero": np.array(0, np.float32), "zeros": np.zeros((1, 4), np.float32), "ones": np.ones((4,), np.float32), "one": np.array(1, np.float32),
    "zeros3": np.zeros((1, 1, 4), np.float32), "tall": np.zeros((3, 1), np.float32), "tall1": np.ones((3, 4), np.float32), "two": np.array(2, np.float32),
    "nearly": np.array([0, 0, 0, 1e-30], np.float32), "izero": np.array([0]), "ione": np.array([1]), "half": np.array(0.5, np.float32),
    "false": np.array(False), "true": np.array(True), "none": np.zeros(0, np.float32), "bzero": np.array([0.0], np.float64),
}  # fmt: skip


def with_constants(text: str, opset: int = 20) -> onnx.ModelProto:
    words = text
    for mark in "(),<>={}":
        words = words.replace(mark, " ")
    used = {name: values for name, values in CONSTANTS.items() if name in words.split()}
    return parse(text, opset=opset, **used)


WITHOUT_EFFECT = {
    "Identity": "r = Identity(x)",
    "Cast to the same type": "r = Cast<to=1>(x)",
    "Reshape to the same shape": "r = Reshape(x, shape)",
    "Reshape there and back": "f = Reshape(x, flat) r = Reshape(f, shape)",
    "Unsqueeze and Squeeze": "u = Unsqueeze(x, v1) r = Squeeze(u, v1)",
    "Unsqueeze and Reshape": "u = Unsqueeze(x, v1) r = Reshape(u, shape)",
    "Flatten": "r = Flatten(x)",
    "Expand to ones": "r = Expand(x, one_one)",
    "Tile once": "r = Tile(x, one_one)",
    "Transpose in order": "r = Transpose<perm=[0,1]>(x)",
    "Slice of everything": "r = Slice(x, v0, far, v1)",
    "Slice of all columns": "r = Slice(x, v0, v4, v1, v1)",
    "Concat of one": "r = Concat<axis=0>(x)",
    "Concat with an empty part": "e = Slice(x, v0, v0, v1) r = Concat<axis=-1>(e, x)",
    "Dropout": "r = Dropout(x)",
    "Dropout with a ratio": "r = Dropout(x, half)",
    "Dropout not in training": "r = Dropout(x, half, false)",
    "Dropout with an unused mask": "r, m = Dropout(x)",
    "Add zero": "r = Add(x, zero)",
    "Add zeros": "r = Add(zeros, x)",
    "Subtract zero": "r = Sub(x, zeros)",
    "Multiply by one": "r = Mul(ones, x)",
    "Divide by one": "r = Div(x, one)",
    "Add zeros made for the batch": "s = Shape(x) c = ConstantOfShape(s) r = Add(c, x)",
    "Add zeros expanded": "s = Shape(x) c = Expand(zero, s) r = Add(c, x)",
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_nodes_without_effect_go(name: str) -> None:
    model = with_constants(f"(float[b,4] x) => (float[b,4] y) {{ {WITHOUT_EFFECT[name]} y = Neg(r) }}")
    result = optimize(model)
    assert op_types(result.model) == ["Neg"]
    assert list(result.model.graph.node[0].input) == ["x"]
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    agree(
        model,
        result,
        {"x": x},
        {"x": x[:1]},
        {"x": x[:0]} if "back" not in name and "Unsq" not in name else {"x": x[:2]},
    )


WITH_EFFECT = {
    "Cast": ("r = Cast<to=10>(x)", "float16[b,4]"),
    "Reshape to another shape": ("r = Reshape(x, flat)", "float[n]"),
    "Reshape of a transpose": ("t = Transpose(x) r = Reshape(t, shape)", "float[n,4]"),
    "Expand": ("u = Unsqueeze(x, v1) r = Expand(u, two_three)", "float[b,3,4]"),
    "Tile": ("r = Tile(x, two_one)", "float[n,4]"),
    "Transpose": ("r = Transpose<perm=[1,0]>(x)", "float[4,b]"),
    "Transpose by default": ("r = Transpose(x)", "float[4,b]"),
    "Slice of the batch": ("r = Slice(x, v0, v1, v0)", "float[n,4]"),
    "Slice backwards": ("r = Slice(x, minus, least, v1, minus)", "float[b,4]"),
    "Concat of two": ("r = Concat<axis=0>(x, x)", "float[n,4]"),
    "Add zeros that make it larger": ("r = Add(x, zeros3)", "float[1,b,4]"),
    "Add zeros that stretch a batch of one": ("r = Add(x, tall)", "float[n,4]"),
    "Multiply by ones that stretch a batch of one": ("r = Mul(x, tall1)", "float[n,4]"),
    "Add nearly zero": ("r = Add(x, nearly)", "float[b,4]"),
    "Subtract from zero": ("r = Sub(zero, x)", "float[b,4]"),
    "Divide one": ("r = Div(one, x)", "float[b,4]"),
    "Multiply by two": ("r = Mul(x, two)", "float[b,4]"),
    "Multiply by zero": ("r = Mul(x, zero)", "float[b,4]"),
    "Add one": ("r = Add(x, one)", "float[b,4]"),
}


@pytest.mark.parametrize("name", WITH_EFFECT)
def test_nodes_with_an_effect_stay(name: str) -> None:
    steps, kind = WITH_EFFECT[name]
    text = f"(float[b,4] x) => ({kind} y) {{ {steps} y = Neg(r) }}"
    model = with_constants(text)
    for extra, values in (("two_three", np.array([1, 3, 1])), ("least", np.array([-(2**63)]))):
        if extra in text:
            model.graph.initializer.append(onnx.numpy_helper.from_array(values, extra))
    result = optimize(model)
    assert len(op_types(result.model)) >= 2
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    agree(model, result, {"x": x}, {"x": x[:1]})


def test_a_slice_with_an_unknown_step_stays() -> None:
    model = with_constants(
        "(float[b,4] x, int64[1] step) => (float[b,n] y) { r = Slice(x, v0, far, v1, step) y = Neg(r) }"
    )
    result = optimize(model)
    assert op_types(result.model) == ["Slice", "Neg"]
    agree(model, result, {"x": np.ones((2, 4), np.float32), "step": np.array([2])})


def test_a_dropout_whose_mask_is_read_stays() -> None:
    model = with_constants("(float[b,4] x) => (float[b,4] y, bool[b,4] n) { r, m = Dropout(x) y = Neg(r) n = Not(m) }")
    assert op_types(optimize(model).model) == ["Dropout", "Neg", "Not"]


@pytest.mark.parametrize("mode", ["true", "t"])
def test_a_dropout_in_training_stays(mode: str) -> None:
    inputs = "float[b,4] x" + (", bool t" if mode == "t" else "")
    model = with_constants(f"({inputs}) => (float[b,4] y) {{ r = Dropout(x, half, {mode}) y = Neg(r) }}")
    assert op_types(optimize(model).model) == ["Dropout", "Neg"]


def test_nodes_that_give_a_graph_output_stay() -> None:
    model = with_constants("(float[b,4] x) => (float[b,4] y) { y = Identity(x) }")
    result = optimize(model)
    assert op_types(result.model) == ["Identity"]
    agree(model, result, {"x": np.ones((2, 4), np.float32)})


def test_a_branch_output_keeps_its_identity() -> None:
    model = with_constants(
        """(float[4] x, bool f) => (float[4] y) {
            y = If (f) <
                then_branch = t () => (z) { z = Identity(x) },
                else_branch = e () => (z) { i = Identity(x) z = Neg(i) }
            >
        }"""
    )
    result = optimize(model)
    assert [op_types(a.g) for a in result.model.graph.node[0].attribute] == [["Identity"], ["Neg"]]
    for flag in (True, False):
        agree(model, result, {"x": np.ones(4, np.float32), "f": np.array(flag)})


def test_no_op_chains_end_at_their_source() -> None:
    steps = "\n".join(
        f"x{k + 1} = {['Identity(x{0})', 'Cast<to=1>(x{0})', 'Dropout(x{0})'][k % 3].format(k)}" for k in range(60)
    )
    model = with_constants(f"(float[b,4] x0) => (float[b,4] y) {{ {steps} y = Neg(x60) }}")
    result = optimize(model)
    assert op_types(result.model) == ["Neg"]
    assert list(result.model.graph.node[0].input) == ["x0"]


def test_integers_too() -> None:
    model = with_constants(
        "(int64[b] x) => (int64[b] y) { a = Add(x, izero) m = Mul(a, ione) d = Div(m, ione) y = Neg(d) }"
    )
    result = optimize(model)
    assert op_types(result.model) == ["Neg"]
    agree(model, result, {"x": np.array([1, -5, 2**62])})


def test_zeros_that_are_not_all_there() -> None:
    model = with_constants("(float[0] x) => (float[0] y) { a = Add(x, none) y = Neg(a) }")
    agree(model, optimize(model), {"x": np.zeros(0, np.float32)})


def test_a_large_constant_is_not_read_to_find_zeros() -> None:
    model = parse(
        "(float[b,2000000] x) => (float[b,2000000] y) { a = Add(x, w) y = Neg(a) }",
        w=np.zeros((1, 2000000), np.float32),
    )
    bench = Workbench(model)
    bench.infer_shapes()
    weight = bench.graph.nodes[0].inputs[1]
    assert not remove_no_ops(bench, [])
    assert weight._values._array is None


def test_operators_of_other_domains_are_not_ours_to_judge() -> None:
    model = parse("(float[4] x) => (float[4] y) { a = vendor.Identity(x) y = Neg(a) }", imports=', "vendor": 1')
    bench = Workbench(model)
    bench.infer_shapes()
    assert not remove_no_ops(bench, [])


def test_sequences_pass_through_identity() -> None:
    model = parse(
        "(float[4] x) => (float[4] y) { s = SequenceConstruct(x, x) t = Identity(s) u = Identity(t) y = SequenceAt(u, i) }",
        i=np.array(1),
    )
    result = optimize(model)
    assert op_types(result.model) == ["SequenceConstruct", "SequenceAt"]
    agree(model, result, {"x": np.ones(4, np.float32)})


def test_what_is_removed_is_reported_by_operator() -> None:
    bench = Workbench(
        with_constants(
            "(float[b,4] x) => (float[b,4] y) { a = Identity(x) c = Cast<to=1>(a) d = Identity(c) y = Neg(d) }"
        )
    )
    bench.infer_shapes()
    changes: list[str] = []
    assert remove_no_ops(bench, changes)
    assert changes == ["1 Cast nodes without effect are gone", "2 Identity nodes without effect are gone"]
    bench.tidy()
    assert not remove_no_ops(bench, changes)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ([2, 3], [2, 3], True),
        (["b", 3], ["b", 3], True),
        (["b", 3], ["n", 3], False),
        ([None, 3], [None, 3], False),
        (None, [2], False),
        ([2], [2, 1], False),
        ([], [], True),
    ],
)
def test_same_shape_means_proved(a: list | None, b: list | None, same: bool) -> None:
    assert same_shape(gs.Variable("a", shape=a), gs.Variable("b", shape=b)) == same


def test_every_rule_is_tried_here() -> None:
    tried = " ".join(WITHOUT_EFFECT.values())
    assert [op for op in RULES if f" {op}(" not in tried and f" {op}<" not in tried] == []
