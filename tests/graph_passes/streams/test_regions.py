"""Which fused nodes can become one node."""

from __future__ import annotations

import pytest

from dpiframe.graph_passes.streams.regions import find_regions
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import parse


def regions(nodes: str, inputs: str = "float[b,4] x", outputs: str = "float[b,4] y") -> list[list[str]]:
    """First outputs' names of each set's nodes."""
    bench = Workbench(parse(f"({inputs}) => ({outputs}) {{ {nodes} }}", imports=', "dpiframe": 1'))
    return [[node.outputs[0].name for node in nodes] for nodes in find_regions(bench.graph)]


GEMM = "dpiframe.FusedGemm"


def test_every_op_that_a_region_launches_under_any_of_its_names() -> None:
    found = regions(f"a = {GEMM}_12(x) c = dpiframe.FusedElementwise(a) y = dpiframe.FusedMultiGather_3(c)")
    assert found == [["a", "c", "y"]]


@pytest.mark.parametrize("other", ["dpiframe.FusedGemmV2", "dpiframe.ParallelRegion", "FusedGemm"])
def test_what_no_region_launches_cuts(other: str) -> None:
    assert regions(f"a = {GEMM}(x) c = {other}(a) y = {GEMM}(c)") == [["a"], ["y"]]


def test_neighbours_are_one_region() -> None:
    assert regions(f"a = {GEMM}(x) c = {GEMM}(a) y = {GEMM}(a, c)") == [["a", "c", "y"]]


def test_another_node_between_cuts() -> None:
    assert regions(f"a = {GEMM}(x) r = Relu(a) y = {GEMM}(r)") == [["a"], ["y"]]


def test_no_path_leaves_a_region_and_comes_back() -> None:
    """d can't be with a and c: it needs r, which needs a."""
    found = regions(f"a = {GEMM}(x) c = {GEMM}(a) r = Relu(a) d = {GEMM}(c, r) y = {GEMM}(d)")
    assert found == [["a", "c"], ["d", "y"]]


def test_other_nodes_before_a_region_don_t_cut() -> None:
    assert regions(f"r = Relu(x) a = {GEMM}(r) c = {GEMM}(x) y = {GEMM}(a, c)") == [["a", "c", "y"]]


def test_several_other_nodes_in_a_row_cut_once() -> None:
    assert regions(f"a = {GEMM}(x) r = Relu(a) s = Neg(r) c = {GEMM}(s) y = {GEMM}(c)") == [["a"], ["c", "y"]]


def test_no_fused_nodes() -> None:
    assert regions("r = Relu(x) y = Neg(r)") == []


def test_every_set_is_convex_on_a_ladder() -> None:
    rungs = "".join(
        f"a{i + 1} = {GEMM}(a{i}, r{i}) r{i + 1} = {'Relu' if i % 3 == 0 else GEMM}(a{i}) " for i in range(30)
    )
    text = f"(float[b,4] x) => (float[b,4] y) {{ a0 = {GEMM}(x) r0 = Neg(x) {rungs} y = Add(a30, r30) }}"
    bench = Workbench(parse(text, imports=', "dpiframe": 1'))
    for nodes in find_regions(bench.graph):
        inside = {id(node) for node in nodes}
        reached = {id(node): False for node in bench.graph.nodes}
        for node in bench.graph.nodes:
            producers = [p for tensor in node.inputs for p in tensor.inputs]
            came_back = any(reached[id(p)] for p in producers)
            assert not (came_back and id(node) in inside)
            left = any(id(p) in inside for p in producers) and id(node) not in inside
            reached[id(node)] = came_back or left
