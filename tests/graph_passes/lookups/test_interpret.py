"""Hazard: the interpreter takes too much in, or loses an order of dependence."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.lookups.interpret import Interpreter
from dpiframe.graph_passes.lookups.symbols import Column, Id, Mask, Pooled, TableRow
from dpiframe.graph_passes.lookups.symbols import Test as Comparison
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse, table

W = table(10, 4)


class Seen:
    """A canonicalized model and what the interpreter makes of it."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.bench = Workbench(model)
        Canonicalize()(self.bench)
        self.interpreter = Interpreter(self.bench.graph, self.bench, set()).run()
        self.tensors = {t.name: t for node in self.bench.graph.nodes for t in node.outputs}

    def atoms(self, name: str) -> list | None:
        value = self.interpreter.values.get(id(self.tensors[name]))
        return None if value is None else [self.interpreter.atoms.of_code(c) for c in value.codes.ravel()]

    def hot(self, name: str) -> bool:
        return id(self.tensors[name]) in self.interpreter.hot

    def level(self, name: str) -> int:
        return self.interpreter.level[id(self.tensors[name])]


def test_a_row_is_a_run_of_codes() -> None:
    seen = Seen(parse("(int64[b,2] a) => (float[b,2,4] y) { e = Gather(W, a) y = Relu(e) }", W=W))
    assert seen.atoms("e") == [TableRow(0, Id(0, 0), 4)] * 4 + [TableRow(0, Id(0, 1), 4)] * 4
    assert seen.hot("e")
    assert seen.level("e") == 1
    assert seen.atoms("y") is None
    assert not seen.hot("y")
    assert seen.level("y") == 1


def test_masks_and_pools() -> None:
    seen = Seen(
        parse(
            """(int64[b,2] a) => (float[b,4] y) {
                zero = Constant<value_int=0>() i1 = Constant<value_ints=[1]>() i2 = Constant<value_ints=[2]>()
                e = Gather(W, a)
                q = Equal(a, zero) n = Not(q) m = Cast<to=1>(n) u = Unsqueeze(m, i2)
                p = Mul(e, u) s = ReduceSum<keepdims=0>(p, i1) y = Relu(s)
            }""",
            W=W,
        )
    )
    assert seen.atoms("q") == [Comparison("eq", Id(0, 0), 0), Comparison("eq", Id(0, 1), 0)]
    mask = [Mask(Comparison("ne", Id(0, k), 0)) for k in range(2)]
    assert seen.atoms("m") == mask
    rows = [TableRow(0, Id(0, k), 4) for k in range(2)]
    assert seen.atoms("s") == [Pooled("sum", ((rows[0], mask[0]), (rows[1], mask[1])))] * 4


def test_what_ids_are_made_of_does_not_matter() -> None:
    seen = Seen(parse("(int64[b] a) => (float[b,4] y) { n = Neg(a) e = Gather(W, n) y = Relu(e) }", W=W))
    assert seen.atoms("e") == [TableRow(0, Id(0, 0), 4)] * 4
    assert [t.name for t in seen.interpreter.atoms.sources] == ["n"]


def test_levels_count_what_lies_before() -> None:
    seen = Seen(
        parse(
            """(int64[b,1] a) => (float[b,1,1] y) {
                e = Gather(N, a) c = Cast<to=7>(e) f = Gather(N, c) d = Cast<to=7>(f)
                i2 = Constant<value_ints=[2]>() q = Squeeze(d, i2)
                g = Gather(N, q) k = Reshape(g, s) y = Relu(k)
            }""",
            N=np.arange(10, dtype=np.float32)[:, None],
            s=np.array([-1, 1, 1]),
        )
    )
    assert [seen.level(name) for name in ("e", "c", "f", "d", "g")] == [1, 1, 2, 2, 3]


def test_a_join_with_what_depends_on_rows_is_left_outside() -> None:
    seen = Seen(
        parse(
            "(int64[b] a, int64[b] c) => (float[b,12] y) { e = Gather(W, a) f = Gather(W, c) s = Sigmoid(e) j = Concat<axis=1>(e, f, s) y = Relu(j) }",
            W=W,
        )
    )
    assert seen.atoms("j") is None
    assert seen.level("j") == 1


def test_dense_branches_that_need_no_rows_are_joined() -> None:
    seen = Seen(
        parse(
            "(int64[b] a, float[b,3] x) => (float[b,7] y) { e = Gather(W, a) s = Sigmoid(x) j = Concat<axis=1>(e, s) y = Relu(j) }",
            W=W,
        )
    )
    assert seen.atoms("j") == [TableRow(0, Id(0, 0), 4)] * 4 + [Column(1, k) for k in range(3)]


def test_elementwise_products_are_left_outside() -> None:
    seen = Seen(
        parse("(int64[b] a, float[b,4] x) => (float[b,4] y) { e = Gather(W, a) p = Mul(e, x) y = Relu(p) }", W=W)
    )
    assert seen.atoms("p") is None


def test_a_weight_a_row_is_taken_in() -> None:
    seen = Seen(
        parse("(int64[b] a, float[b,1] x) => (float[b,4] y) { e = Gather(W, a) p = Mul(e, x) y = Relu(p) }", W=W)
    )
    assert seen.atoms("p") == [Pooled("sum", ((TableRow(0, Id(0, 0), 4), Column(1, 0)),))] * 4


def test_excluded_nodes_are_opaque() -> None:
    seen = Seen(
        parse(
            "(int64[b] a) => (float[b,1,4] y) { e = Gather(W, a) u = Unsqueeze(e, i) y = Relu(u) }",
            W=W,
            i=np.array([1]),
        )
    )
    view = next(n for n in seen.bench.graph.nodes if n.op == "Unsqueeze")
    again = Interpreter(seen.bench.graph, seen.bench, {id(view)}).run()
    assert id(view.outputs[0]) not in again.hot
    assert id(view.inputs[0]) in again.hot


@pytest.mark.parametrize("target", [6, 7])
def test_casts_of_ids(target: int) -> None:
    # int64 to int32 may wrap: then the cast's own output is the source
    seen = Seen(
        parse(
            f"(int64[b] a, float[b] x) => (float[b,8] y) {{ c = Cast<to={target}>(a) d = Cast<to={target}>(x) e = Gather(W, c) f = Gather(W, d) j = Concat<axis=1>(e, f) y = Relu(j) }}",
            W=W,
        )
    )
    rows = [seen.atoms(name)[0] for name in ("e", "f")]  # type: ignore[index]
    sources = [seen.interpreter.atoms.sources[row.id.source].name for row in rows]
    assert sources == (["c", "x"] if target == 6 else ["a", "x"])


def test_large_operands_are_not_looked_at() -> None:
    seen = Seen(
        parse(
            "(int64[b] a, float[b,100] x) => (float[b,100] y) { m = MatMul(x, V) s = Add(m, v) y = Relu(s) }",
            V=np.zeros((100, 100), np.float32),
            v=np.zeros(100, np.float32),
        )
    )
    # neither the weights nor the bias of a dense layer become atoms
    assert len(seen.interpreter.atoms) == 0


def test_an_operator_with_an_odd_number_of_operands_or_outputs() -> None:
    model = parse(
        "(int64[b] a, float[b,4] x) => (float[b,4] y, int64[b,1] i) { e = Gather(W, a) s = Sum(e, x, e) t, i = TopK<axis=1>(s, one) y = Add(s, t) }",
        W=W, one=np.array([1]),
    )  # fmt: skip
    seen = Seen(model)
    assert seen.hot("e")
    assert not seen.hot("s")
