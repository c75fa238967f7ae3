"""Hazard: arithmetic on shapes with a symbol in them comes to a number that is right for one batch size only."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from dpiframe.graph_passes.canonicalize.shape_values import is_known, shape_values, value_of
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse


def values(nodes: str, inputs: str = "float[b,3,n,4] x", opset: int = 20, **constants: np.ndarray) -> dict[str, Any]:
    """Tensor name -> value as nested lists, for what is found out."""
    bench = Workbench(
        parse(f"({inputs}) => (float[k] y) {{ {nodes} y = ConstantOfShape(last) }}", opset=opset, **constants)
    )
    bench.infer_shapes()
    found = shape_values(bench.graph)
    names = {id(t): t.name for node in bench.graph.nodes for t in node.outputs}
    return {names[key]: value.tolist() for key, value in found.items()}


OPERANDS = (
    {f"c{k}": np.array(k) for k in range(5)} | {f"v{k}": np.array([k]) for k in range(5)} | {"minus": np.array([-1])}
)


def known(nodes: str, name: str, **options: Any) -> Any:
    words = re.split(r"\W+", nodes)
    constants = {n: v for n, v in OPERANDS.items() if n in words}
    return values(nodes, **constants, last=np.array([1]), **options).get(name)


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        ("s = Shape(x)", ["b", 3, "n", 4]),
        ("s = Shape<start=1>(x)", [3, "n", 4]),
        ("s = Shape<start=-2, end=-1>(x)", ["n"]),
        ("s = Shape<end=100>(x)", ["b", 3, "n", 4]),
        ("a = Shape(x) s = Gather(a, c1)", 3),
        ("a = Shape(x) s = Gather(a, v0)", ["b"]),
        ("a = Shape(x) g = Gather(a, c0) s = Unsqueeze(g, v0)", ["b"]),
        ("a = Shape(x) g = Gather(a, v3) s = Squeeze(g, v0)", 4),
        ("a = Shape(x) g = Gather(a, v3) s = Squeeze(g)", 4),
        ("a = Shape(x) g = Gather(a, c3) u = Unsqueeze(g, v0) s = Concat<axis=0>(u, v2)", [4, 2]),
        ("a = Shape(x) s = Slice(a, v1, v3)", [3, "n"]),
        ("a = Shape(x) s = Slice(a, minus, v0, v0, minus)", [4, "n", 3]),
        ("a = Shape(x) s = Slice(a, v3, v4)", [4]),
        ("a = Shape(x) s = Cast<to=6>(a)", ["b", 3, "n", 4]),
        ("a = Shape(x) s = Identity(a)", ["b", 3, "n", 4]),
        ("a = Shape(x) g = Gather(a, c1) s = Mul(g, c4)", 12),
        ("a = Shape(x) g = Gather(a, c0) s = Mul(g, c1)", "b"),
        ("a = Shape(x) g = Gather(a, c0) s = Mul(c0, g)", 0),
        ("a = Shape(x) g = Gather(a, c0) s = Mul(g, c2)", None),
        ("a = Shape(x) g = Gather(a, c0) s = Add(g, c0)", "b"),
        ("a = Shape(x) g = Gather(a, c0) s = Add(g, c1)", None),
        ("a = Shape(x) g = Gather(a, c0) h = Gather(a, c2) s = Add(g, h)", None),
        ("a = Shape(x) g = Gather(a, c0) s = Sub(g, g)", 0),
        ("a = Shape(x) g = Gather(a, c0) h = Gather(a, c2) s = Sub(g, h)", None),
        ("a = Shape(x) g = Gather(a, c1) s = Div(g, c2)", 1),
        ("a = Shape(x) g = Gather(a, c0) s = Div(g, c1)", "b"),
        ("a = Shape(x) g = Gather(a, c0) s = Div(g, g)", None),
        ("a = Shape(x) g = Gather(a, c0) s = Equal(g, c1)", None),
        ("a = Shape(x) g = Gather(a, c0) s = Equal(g, g)", True),
        ("a = Shape(x) g = Gather(a, c1) s = Equal(g, c3)", True),
        ("a = Shape(x) g = Gather(a, c1) s = Equal(g, c1)", False),
        ("a = Shape(x) g = Gather(a, v0) s = Equal(g, minus)", [False]),
        ("a = Shape(x) o = ConstantOfShape<value = int64[1] {1}>(v4) m = Neg(o) e = Equal(a, o) s = Where(e, o, a)", [None, 3, None, 4]),
        ("s = ConstantOfShape<value = int64[1] {7}>(v3)", [7, 7, 7]),
        ("s = ConstantOfShape(v3)", None),
        ("a = Shape(x) s = Reshape(a, minus)", ["b", 3, "n", 4]),
    ],
)  # fmt: skip
def test_what_follows_from_shapes(nodes: str, want: Any) -> None:
    found = known(nodes, "s")
    if isinstance(want, list) and None in want:
        assert found == want
    elif want is None:
        assert found is None
    else:
        assert found == want
        assert np.array(found, object).shape == np.array(want, object).shape


def test_the_expand_idiom_of_the_torchscript_exporter() -> None:
    # Where(Equal(target, -1), ones, target): sizes that aren't given are those of the input
    nodes = """a = Shape(x) g = Gather(a, c0) u = Unsqueeze(g, v0) t = Concat<axis=0>(u, v4)
    o = ConstantOfShape<value = int64[1] {1}>(v2) m = Mul(o, minus) e = Equal(t, m) s = Where(e, o, t)"""
    assert known(nodes, "s") == ["b", 4]


@pytest.mark.parametrize("opset", [11, 12])
def test_axes_as_attributes(opset: int) -> None:
    assert known("a = Shape(x) g = Gather(a, c3) s = Unsqueeze<axes=[0]>(g)", "s", opset=opset) == [4]
    assert known("a = Shape(x) g = Gather(a, v3) s = Squeeze<axes=[0]>(g)", "s", opset=opset) == 4
    # squeezing one axis of two leaves the other
    nodes = "a = Shape(x) g = Gather(a, v3) u = Unsqueeze<axes=[0]>(g) s = Squeeze<axes=[0]>(u)"
    assert known(nodes, "s", opset=opset) == [4]


def test_shapes_that_are_unknown() -> None:
    assert known("r = Reshape(x, t) s = Shape(r)", "s", inputs="float[b] x, int64[n] t") is None


def test_large_values_are_not_followed() -> None:
    assert "s" not in values(
        "s = ConstantOfShape<value = int64[1] {1}>(many) ", many=np.array([65]), last=np.array([1])
    )


def test_only_small_integer_constants_are_values() -> None:
    empty: dict[int, np.ndarray] = {}
    assert value_of(gs.Constant("c", np.array([1, 2])), empty).tolist() == [1, 2]  # type: ignore[union-attr]
    assert value_of(gs.Constant("c", np.array([True])), empty).tolist() == [True]  # type: ignore[union-attr]
    assert value_of(gs.Constant("c", np.array([1.0])), empty) is None
    assert value_of(gs.Constant("c", np.zeros(65, np.int64)), empty) is None
    assert value_of(gs.Variable("v"), empty) is None


def test_known_means_numbers_only() -> None:
    assert is_known(np.array([1, True, np.bool_(False)], object))
    assert is_known(np.array([], object))
    assert not is_known(np.array([1, "b"], object))
    assert not is_known(np.array([None], object))


def test_inner_graphs_know_what_outer_ones_do() -> None:
    model = parse(
        """(float[b,3] x, bool f) => (int64[2] y) {
            s = Shape(x)
            y = If (f) <then_branch = t () => (z) { z = Identity(s) }, else_branch = e () => (z) { z = Add(s, s) }>
        }"""
    )
    bench = Workbench(model)
    bench.infer_shapes()
    outer = shape_values(bench.graph)
    inner = shape_values(bench.graphs()[1], outer)
    assert inner[id(bench.graphs()[1].nodes[0].outputs[0])].tolist() == ["b", 3]


OPS = st.sampled_from(["Add", "Sub", "Mul", "Div", "Gather", "Concat", "Slice", "Equal"])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(OPS, st.integers(0, 99), st.integers(0, 99)), max_size=8), st.integers(1, 6))
def test_whatever_is_known_holds_for_every_batch(steps: list[tuple[str, int, int]], batch: int) -> None:
    names, nodes, constants = ["shape"], ["shape = Shape(x)"], {"c0": np.array([0, 1]), "c1": np.array([2, -1])}
    names += list(constants)
    for number, (op, i, j) in enumerate(steps):
        a, b, out = names[i % len(names)], names[j % len(names)], f"t{number}"
        call = {
            "Gather": f"Gather({a}, c0)",
            "Concat": f"Concat<axis=0>({a}, {b})",
            "Slice": f"Slice({a}, one, two)",
        }.get(op)
        nodes.append(f"{out} = {call or f'{op}({a}, {b})'}")
        if op != "Equal":
            names.append(out)
    constants |= {"one": np.array([0]), "two": np.array([2]), "last": np.array([1])}
    text = "\n".join(nodes)
    model = parse(f"(float[b,3] x) => (float[k] y) {{ {text} y = ConstantOfShape(last) }}", **constants)
    bench = Workbench(model)
    bench.infer_shapes()
    found = shape_values(bench.graph)
    tensors = {t.name: found[id(t)] for node in bench.graph.nodes for t in node.outputs if id(t) in found}
    wanted = [name for name in tensors if name != "y"]
    try:
        with np.errstate(all="ignore"):
            got = ReferenceEvaluator(model).run(wanted, {"x": np.zeros((batch, 3), np.float32)})
    except Exception:
        return  # shapes that don't broadcast, or a division by zero: the model has no answer
    for name, real in zip(wanted, got, strict=True):
        flat = np.asarray(real).ravel()
        assert tensors[name].size == flat.size, name
        for symbol, number in zip(tensors[name].ravel(), flat, strict=True):
            assert symbol is None or number == (batch if symbol == "b" else symbol), (name, tensors[name], real)
