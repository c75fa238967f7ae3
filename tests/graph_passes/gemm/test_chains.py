"""What chains of other operators are expected to take in: views and parts of rows, as long as rows stay rows."""

from __future__ import annotations

import numpy as np
import pytest

from dpiframe.graph_passes.gemm.chains import comes_from_chain, is_absorbed, products_behind
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse, table


def bench_of(nodes: str, outputs: str = "float[b,n] y") -> Workbench:
    bench = Workbench(
        parse(
            f"(float[b,6] x) => ({outputs}) {{ {nodes} }}",
            imports=', "vendor": 1',
            one=np.array([1]),
            pairs=np.array([0, 3, 2]),
            back=np.array([0, 6]),
            threes=np.array([-1, 3]),
            W=table(6, 6),
        )
    )
    bench.infer_shapes()
    return bench


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("v = Tanh(x) y = Neg(v)", True),
        ("v = Tanh(x) y = Softmax(v)", True),
        ("v = Tanh(x) y = Gemm(v, W)", True),
        ("v = Tanh(x) y = Concat <axis = 1> (v, x)", True),
        ("v = Tanh(x) r = Reshape(v, pairs) s = ReduceSum(r) y = Reshape(s, threes)", False),
        ("v = Tanh(x) r = Reshape(v, pairs) e = Exp(r) y = Reshape(e, back)", True),
        ("v = Tanh(x) r = Reshape(v, threes) y = Neg(r)", False),
        ("v = Tanh(x) r = Transpose(v) y = Neg(r)", False),
        ("v = Tanh(x) y = Reshape(v, back)", False),
        ("v = Tanh(x) y = vendor.Neg(v)", False),
        ("v = Tanh(x) y, i = TopK(v, one)", False),
        ("v = Tanh(x) y = Neg(v) z = Transpose(v)", True),
    ],
)
def test_what_takes_parts_in(nodes: str, expected: bool) -> None:
    bench = bench_of(nodes)
    (value,) = [tensor for node in bench.graph.nodes for tensor in node.outputs if tensor.name == "v"]
    bench.tidy()
    assert is_absorbed(value, bench.output_ids()) == expected


def test_what_leaves_the_graph_is_made_as_it_is() -> None:
    bench = bench_of("v = Tanh(x) y = Neg(v)", "float[b,6] y, float[b,6] v")
    value = bench.graph.outputs[1]
    assert not is_absorbed(value, bench.output_ids())
    assert not comes_from_chain(value, bench.output_ids())


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("v = Tanh(x) y = Conv(v, W)", True),
        ("t = Tanh(x) v = Reshape(t, pairs) y = Conv(v, W)", True),
        ('v = Einsum <equation = "bi,bj->bij"> (x, x) y = Conv(v, W)', True),
        ("v = Reshape(x, pairs) y = Conv(v, W)", False),
        ("t = Tanh(x) v = Reshape(t, threes) y = Conv(v, W)", False),
        ("t = Tanh(x) v = Reshape(t, pairs) n = Neg(t) y = Conv(v, W)", False),
        ("v = vendor.Tanh(x) y = Conv(v, W)", False),
        ("v = Tanh(x) y = Conv(v, W) z = Neg(v)", False),
    ],
)
def test_what_can_give_a_view(nodes: str, expected: bool) -> None:
    bench = bench_of(
        nodes,
        "float[b,n] y" + (", float[b,6] n" if "n =" in nodes else "") + (", float[b,6] z" if "z =" in nodes else ""),
    )
    (value,) = [tensor for node in bench.graph.nodes for tensor in node.outputs if tensor.name == "v"]
    assert comes_from_chain(value, bench.output_ids()) == expected


def test_products_behind_views_and_parts() -> None:
    bench = bench_of(
        """v = Tanh(x) p = Gemm(v, W) r = Reshape(v, pairs) f = Reshape(r, back) q = Gemm(f, W) n = Neg(v) o = Gemm(n, W)
           y = Sum(p, q, o)"""
    )
    (value,) = [tensor for node in bench.graph.nodes for tensor in node.outputs if tensor.name == "v"]
    assert [node.outputs[0].name for node in products_behind([value])] == ["p", "q"]
