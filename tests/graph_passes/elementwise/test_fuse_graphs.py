"""Hazard: what a model has around groups (outputs, branches, initializers, batches, operator sets, types) changes them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph_passes.elementwise.fusing import ONE, TOLERANCE, batches, fused, lines
from tests.graph_passes.elementwise.programs import floats
from tests.graph_passes.harness import agree, op_types, optimize, parse, session


def test_outputs_of_the_graph_inside_a_group() -> None:
    model = parse(
        "(float[b,4] x) => (float[b,4] a, float[b,4] y, float[b,1] z) { a = Relu(x) y = Exp(a) z = ReduceSum(y, one) }",
        one=ONE,
    )
    result = fused(model, *batches(4))
    assert op_types(result.model) == ["FusedElementwise"]
    assert list(result.model.graph.node[0].output) == ["a", "y", "z"]


def test_a_value_that_is_read_inside_and_outside() -> None:
    model = parse(
        "(float[b,4] x) => (float[b,4] y, float[b,4] z) { a = Relu(x) c = Exp(a) y = Mul(c, a) z = MatMul(c, w) }",
        w=floats(4, 4),
    )
    result = fused(model, *batches(4), provider="cpu")
    assert op_types(result.model) == ["FusedElementwise", "MatMul"]
    assert list(result.model.graph.node[0].output) == ["c", "y"]


def test_layers_of_one_structure_share_a_body() -> None:
    layer = "m{i} = Mul(x{i}, w{i}) a{i} = Add(m{i}, x{i}) g{i} = MatMul(a{i}, u) x{j} = Add(g{i}, a{i})"
    nodes = " ".join(layer.format(i=i, j=i + 1) for i in range(3))
    model = parse(
        f"(float[b,4] x0) => (float[b,4] y) {{ {nodes} y = Identity(x3) }}",
        u=floats(4, 4),
        **{f"w{i}": floats(4, seed=i) for i in range(3)},
    )
    result = fused(model, *batches(4, name="x0"), provider="cpu")
    names = [op for op in op_types(result.model) if op.startswith("Fused")]
    assert names == ["FusedElementwise", "FusedElementwise_1", "FusedElementwise_1"]
    assert len(result.model.functions) == 2


def test_branches_are_fused_as_well() -> None:
    model = parse(
        """(float[b,4] x, bool t) => (float[b,4] y) {
            i = If(t) <then_branch = g () => (float[b,4] p) { q = Exp(x) r = Mul(q, w) p = Add(r, x) },
                       else_branch = h () => (float[b,4] p) { p = Neg(x) }>
            y = MatMul(i, u)
        }""",
        w=floats(4),
        u=floats(4, 4),
    )
    cases = [{"x": floats(5, 4), "t": np.array(flag)} for flag in (True, False)]
    result = fused(model, *cases)
    branch = result.model.graph.node[0].attribute[1]
    assert ["FusedElementwise"] in [op_types(a.g) for a in (branch, result.model.graph.node[0].attribute[0])]


def test_an_initializer_that_may_be_overridden() -> None:
    model = parse("(float[b,4] x, float[4] w) => (float[b,4] y) { m = Mul(x, w) y = Add(m, x) }", w=floats(4))
    result = optimize(model)
    assert op_types(result.model) == ["FusedElementwise"]
    case = {"x": floats(5, 4), "w": floats(4, seed=9)}
    want = session(model).run(None, case)[0]
    np.testing.assert_allclose(session(result.model, True).run(None, case)[0], want, atol=1e-6)
    del case["w"]
    want = session(model).run(None, case)[0]
    np.testing.assert_allclose(session(result.model, True).run(None, case)[0], want, atol=1e-6)


def test_a_fixed_batch() -> None:
    model = parse(
        "(float[8,4] x, float[8,1] g) => (float[8,4] y) { a = Exp(x) m = Mul(a, g) y = Add(m, w) }", w=floats(4)
    )
    result = fused(model, {"x": floats(8, 4), "g": floats(8, 1)})
    assert op_types(result.model) == ["FusedElementwise"]
    assert lines(result)[:3] == ["input f32 x 4", "input f32 x 1", "input f32 - 4"]


@pytest.mark.parametrize("opset", [11, 12, 13, 17, 18, 20])
def test_operator_sets(opset: int) -> None:
    axes, one = ("<axes=[1],keepdims=0>(x)", {}) if opset < 13 else ("<keepdims=0>(x, one)", {"one": ONE})
    model = parse(
        f"(float[b,3,4] x) => (float[b,4] y) {{ s = ReduceSum{axes} t = Softmax<axis=1>(s) y = Mul(t, s) }}",
        opset=opset,
        **one,
    )
    result = fused(model, *batches(3, 4), reference=opset > 12)
    assert op_types(result.model) == ["FusedElementwise"]


def test_operator_sets_that_are_too_old() -> None:
    model = parse("(float[b,4] x) => (float[b,4] y) { a = Relu(x) c = Neg(a) y = Exp(c) }", opset=10)
    result = optimize(model)
    assert not result.fused
    assert op_types(result.model) == ["Relu", "Neg", "Exp"]


@pytest.mark.parametrize("kind", ["float16", "double", "int64", "int32"])
def test_types(kind: str) -> None:
    model = parse(f"({kind}[b,4] x, {kind}[b,1] z) => ({kind}[b,4] y) {{ a = Mul(x, z) c = Add(a, x) y = Sub(c, z) }}")
    dtype = {"float16": "float16", "double": "float64"}.get(kind, kind)
    case = {"x": (floats(5, 4) * 4).astype(dtype), "z": (floats(5, 1) * 4).astype(dtype)}
    result = optimize(model, provider="cuda")
    assert op_types(result.model) == ["FusedElementwise"]
    agree(model, result, case, tolerance=2e-3 if kind == "float16" else TOLERANCE)
