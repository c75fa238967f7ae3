"""Hazard: two bodies under one name, or a name that the library doesn't know."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from dpiframe.graph_passes.functions import (
    DOMAIN,
    POOL_SIZE,
    PoolExhaustedError,
    add_function,
    calls,
    count_ops,
    is_fused,
    op_of,
    pool_names,
)
from dpiframe.graph_passes.graphs import Node
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import FP32_TOLERANCE, OP, agree, fuse_all, ids, op_types, optimize, parse, table


def bench(functions: str = "", imports: str = "") -> Workbench:
    return Workbench(parse("(float[2] x) => (float[2] y) { y = Relu(x) }", functions=functions, imports=imports))


def body(op: str) -> list[onnx.NodeProto]:
    return [helper.make_node(op, ["a"], ["b"])]


def add(to: Workbench, op: str) -> str:
    return add_function(to, OP, ["a"], ["b"], body(op), ["program"])


def test_the_pool() -> None:
    names = pool_names(OP)
    assert names[:3] == [OP, f"{OP}_1", f"{OP}_2"]
    assert names[-1] == f"{OP}_63"
    assert len(set(names)) == POOL_SIZE == 64


def test_equal_bodies_share_a_name_and_others_dont() -> None:
    to = bench()
    assert [add(to, op) for op in ("Relu", "Neg", "Relu", "Abs", "Neg")] == [OP, f"{OP}_1", OP, f"{OP}_2", f"{OP}_1"]
    functions = {f.name: f for f in to.to_model().functions}
    assert [functions[name].node[0].op_type for name in (OP, f"{OP}_1", f"{OP}_2")] == ["Relu", "Neg", "Abs"]
    assert all(f.domain == DOMAIN and list(f.attribute) == ["program"] for f in functions.values())
    assert all([(o.domain, o.version) for o in f.opset_import] == [("", 20)] for f in functions.values())


def test_the_domain_is_imported_once() -> None:
    to = bench()
    add(to, "Relu")
    add(to, "Neg")
    assert [(o.domain, o.version) for o in to.to_model().opset_import] == [("", 20), (DOMAIN, 1)]


def test_the_end_of_the_pool() -> None:
    to = bench()
    for k in range(POOL_SIZE):
        nodes = [helper.make_node("Selu", ["a"], ["b"], alpha=float(k))]
        add_function(to, OP, ["a"], ["b"], nodes, ["program"])
    with pytest.raises(PoolExhaustedError, match=f"all 64 names of {OP} are taken"):
        add(to, "Relu")
    assert len(to.functions) == POOL_SIZE
    # a body that is there still is
    nodes = [helper.make_node("Selu", ["a"], ["b"], alpha=63.0)]
    assert add_function(to, OP, ["a"], ["b"], nodes, ["program"]) == f"{OP}_63"


def test_other_ops_have_pools_of_their_own() -> None:
    to = bench()
    assert add(to, "Relu") == OP
    assert add_function(to, "FusedElementwise", ["a"], ["b"], body("Relu"), ["program"]) == "FusedElementwise"


FOREIGN = '<domain: "dpiframe", opset_import: ["": 20]> FusedMultiGather (a) => (b) { b = Neg(a) }'
OVERLOAD = '<domain: "dpiframe", overload: "x", opset_import: ["": 20]> FusedMultiGather (a) => (b) { b = Neg(a) }'


@pytest.mark.parametrize("functions", [FOREIGN, OVERLOAD])
def test_a_function_that_has_the_name_already_keeps_it(functions: str) -> None:
    to = bench(functions, ', "dpiframe": 1')
    assert add(to, "Relu") == f"{OP}_1"
    assert len(to.functions) == 2


def test_a_model_with_a_function_of_its_own_in_our_domain() -> None:
    model = parse(
        "(int64[b] a, float[b,4] x) => (float[b,4] y, float[b,4] z) { y = Gather(A, a) z = dpiframe.Mine(x) }",
        imports=', "dpiframe": 1',
        functions='<domain: "dpiframe", opset_import: ["": 20]> Mine (a) => (b) { b = Neg(a) }',
        A=table(10, 4),
    )
    result = fuse_all(model)
    assert op_types(result.model) == ["Mine", OP]
    assert [f.name for f in result.model.functions] == ["Mine", OP]
    assert result.fused
    # with the library registered too, though it defines no Mine
    agree(model, result, {"a": ids(3, high=10), "x": table(3, 4)})


def test_calls_walks_into_subgraphs() -> None:
    model = parse(
        """(bool f, float[2] x) => (float[2] y) {
            y = If (f) <
                then_branch = t () => (z) { z = local.Inner(x) },
                else_branch = e () => (z) { z = Relu(x) }
            >
        }""",
        imports=', "local": 1',
    )
    assert set(calls(model.graph.node)) == {("", "If"), ("local", "Inner"), ("", "Relu")}


def test_is_fused() -> None:
    assert is_fused(Node(OP, domain=DOMAIN))
    assert not is_fused(Node(OP))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_what_onnx_defines_by_types_is_spelled_out_for_the_reference(approximate: str, provider: str) -> None:
    model = parse(
        f"""(float[b,3,8] x) => (float[b,3,4] y) {{
            p = MatMul(x, w)  a = Add(p, v)  g = Gelu<approximate="{approximate}">(a)  y = Mul(g, a) }}""",
        w=table(8, 4), v=table(1, 4)[0],
    )  # fmt: skip
    result = optimize(model, provider=provider)
    assert result.fused
    assert "Gelu" not in {op for f in result.model.functions for _, op in calls(f.node)}
    agree(model, result, {"x": table(5, 24).reshape(5, 3, 8)}, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("op", ["FusedMultiGather", "FusedElementwise", "FusedGemm", "ParallelRegion"])
def test_the_op_of_a_node(op: str) -> None:
    for name in pool_names(op):
        assert op_of(Node(name, domain=DOMAIN)) == op
        assert op_of(Node(name)) is None


@pytest.mark.parametrize("name", ["FusedGemmV2", "FusedGemmV2_1", "FusedGemm_64", "FusedGemm_", "FusedGemm_x", "Mine"])
def test_a_name_that_only_begins_like_an_ops_is_no_name_of_it(name: str) -> None:
    assert op_of(Node(name, domain=DOMAIN)) is None
    model = parse(f"(float[2] x) => (float[2] y) {{ y = dpiframe.{name}(x) }}", imports=', "dpiframe": 1')
    assert count_ops(model) == {}
