"""Branches of fused nodes as one node with streams; the body runs them in plain order."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.cleanup import Cleanup
from dpiframe.graph_passes.gemm import fuse
from dpiframe.graph_passes.gemm.fuse import FuseGemm
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.streams.assign import AssignStreams
from dpiframe.graph_passes.streams.schedule import Order
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.harness import op_types, parse, same, session, table


@pytest.fixture(autouse=True)
def branches_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Towers on one input would become one, layer by layer."""
    monkeypatch.setattr(fuse, "find_bundles", lambda nodes, outputs: [])


def assign(
    model: onnx.ModelProto, streams: int = 0, order: Order = "breadth", provider: str = "cuda"
) -> tuple[onnx.ModelProto, PassReport]:
    bench = Workbench(model, provider=provider, streams=streams, launch_order=order)
    for kind in (Canonicalize, FuseGemm):
        kind()(bench)
    report = AssignStreams()(bench)
    assert not AssignStreams()(bench).changes, "a second run changes nothing"
    Cleanup()(bench)
    result = bench.to_model()
    onnx.checker.check_model(result, full_check=True)
    return result, report


def agree(model: onnx.ModelProto, result: onnx.ModelProto, *widths: int) -> None:
    before, after = session(model), session(result)
    names = [value.name for value in model.graph.input]
    for batch in (0, 1, 5):
        feed = {name: table(batch, width, seed=i) for i, (name, width) in enumerate(zip(names, widths, strict=True))}
        for got, want in zip(after.run(None, feed), before.run(None, feed), strict=True):
            same(got, want, 1e-6, f"batch {batch}")


def program_of(model: onnx.ModelProto) -> list[str]:
    (node,) = [node for node in model.graph.node if node.op_type.startswith("ParallelRegion")]
    return node.attribute[0].s.decode().splitlines()


def towers(*lengths: int, width: int = 64) -> onnx.ModelProto:
    """Towers of layers on one input, whose results are added up by one more layer."""
    nodes, ends, weights = "", [], {}
    for tower, length in enumerate(lengths):
        value = "x"
        for layer in range(length):
            name = f"t{tower}_{layer}"
            weights[f"W_{name}"] = table(width, width, seed=tower * 10 + layer) / width**0.5
            nodes += f"p_{name} = MatMul({value}, W_{name}) {name} = Relu(p_{name}) "
            value = name
        ends.append(value)
    weights["V"] = table(width, width, seed=99) / width**0.5
    sums = [*(f"j{i}" for i in range(len(ends) - 1)), "y"]
    nodes += f"{sums[0]} = MatMul({ends[0]}, V) "
    for before, after, end in zip(sums, sums[1:], ends[1:], strict=False):
        nodes += f"{after} = Add({before}, {end}) "
    return parse(f"(float[b,{width}] x) => (float[b,{width}] y) {{ {nodes} }}", **weights)


def test_two_towers() -> None:
    model = towers(2, 3)
    result, report = assign(model)
    assert op_types(result) == ["ParallelRegion"]
    agree(model, result, 64)
    lines = program_of(result)
    assert lines[:3] == ["region 1", "inputs 7", "streams 2"]
    assert [line for line in lines if line.startswith("node ")] == [
        "node FusedGemm 0 : 0 1 : 7",
        "node FusedGemm 1 : 0 3 : 8",
        "node FusedGemm 0 : 7 2 : 9",
        "node FusedGemm 1 : 8 4 : 10",
        "node FusedGemm 0 : 9 5 : 11",
        "node FusedGemm 0 : 10 6 11 : 12",
    ]
    assert lines[-1] == "output 12"
    assert lines[4] == "name FusedGemm_t0_0"
    assert lines[5:9] == ["  gemm 1", "  precision fp32", "  weight kn", "  size 64 64"]
    assert report.changes[0].startswith("ParallelRegion_")


def test_the_body_says_stream_and_order() -> None:
    result, _ = assign(towers(2, 3))
    (region,) = [function for function in result.functions if function.name == "ParallelRegion"]
    tags = [{p.key: p.value for p in node.metadata_props} for node in region.node]
    assert [(int(tag["dpiframe.stream"]), int(tag["dpiframe.order"])) for tag in tags] == [
        (0, 0),
        (1, 1),
        (0, 2),
        (1, 3),
        (0, 4),
        (0, 5),
    ]
    assert {entry.domain for entry in region.opset_import} == {"", "dpiframe"}


def test_depth_first() -> None:
    model = towers(2, 3)
    result, _ = assign(model, order="depth")
    streams = [int(line.split()[2]) for line in program_of(result) if line.startswith("node ")]
    assert streams == [0, 0, 0, 1, 1, 0]
    agree(model, result, 64)


def test_more_towers_than_streams() -> None:
    model = towers(*[1] * 6)
    result, _ = assign(model, streams=3)
    assert program_of(result)[2] == "streams 3"
    agree(model, result, 64)


def test_one_stream_is_one_launch_in_the_same_order() -> None:
    model = towers(2, 3)
    result, _ = assign(model, streams=1)
    assert op_types(result) == ["ParallelRegion"]
    assert program_of(result)[2] == "streams 1"
    agree(model, result, 64)


def test_a_chain_has_one_stream() -> None:
    model = towers(4)
    result, report = assign(model)
    assert op_types(result) == ["ParallelRegion"]
    assert program_of(result)[2] == "streams 1"
    assert report.changes == ["ParallelRegion_y: 5 nodes on 1 stream"]
    agree(model, result, 64)


def test_a_node_alone_is_left() -> None:
    model = parse("(float[b,8] x) => (float[b,8] y) { y = MatMul(x, V) }", V=table(8, 8))
    assert op_types(assign(model)[0]) == ["FusedGemm"]


def test_cross_layers_that_all_read_their_input_are_a_branch() -> None:
    weights = {name: table(64, 64, seed=i) / 8 for i, name in enumerate("ABCDEF")}
    model = parse(
        """(float[b,64] r) => (float[b,64] y) {
          x = MatMul(r, F)
          p = MatMul(x, A) m = Mul(x, p) c = Add(m, x) q = MatMul(c, B) n = Mul(x, q) e = Add(n, c)
          h = MatMul(x, C) i = Relu(h) j = MatMul(i, D) k = Relu(j) l = MatMul(k, E) y = Add(l, e) }""",
        **weights,
    )
    result, _ = assign(model, streams=2)
    nodes = [line.split()[2] for line in program_of(result) if line.startswith("node ")]
    assert nodes == ["0", "0", "1", "0", "1", "0"]
    agree(model, result, 64)


def test_on_a_cpu_nothing_is_formed() -> None:
    result, report = assign(towers(2, 3), provider="cpu")
    assert "ParallelRegion" not in op_types(result)
    assert not report.changes
    assert not report.refusals


def test_a_value_that_others_read_comes_out() -> None:
    weights = {name: table(8, 8, seed=i) for i, name in enumerate("UVWT")}
    model = parse(
        """(float[b,8] x) => (float[b,8] y, float[b,8] z, float[b,8] w) {
          z = MatMul(x, U) p = MatMul(x, V) q = MatMul(p, W) r = MatMul(z, T) y = Add(q, r) w = Cos(p) }""",
        **weights,
    )
    result, _ = assign(model)
    (region,) = [node for node in result.graph.node if node.op_type == "ParallelRegion"]
    assert set(region.output) == {"y", "z", "p"}
    agree(model, result, 8)


def test_a_region_inside_a_branch() -> None:
    weights = {name: table(8, 8, seed=i) for i, name in enumerate("UVWT")}
    inner = "p = MatMul(x, U) q = MatMul(p, V) r = MatMul(x, W) s = MatMul(r, T) u = Add(q, s)"
    model = parse(
        f"""(float[b,8] x, bool flag) => (float[b,8] y) {{
          y = If (flag) <then_branch = t () => (float[b,8] u) {{ {inner} }}, else_branch = e () => (float[b,8] v) {{ v = Neg(x) }}>
        }}""",
        **weights,
    )
    result, _ = assign(model)
    then = next(a.g for a in result.graph.node[0].attribute if a.name == "then_branch")
    assert op_types(then) == ["ParallelRegion"]
    for flag in (True, False):
        feed = {"x": table(5, 8), "flag": np.array(flag)}
        same(session(result).run(None, feed)[0], session(model).run(None, feed)[0], 1e-6, str(flag))


@pytest.mark.parametrize("lengths", [(1, 1), (3, 1, 2), (1, 4, 1, 1, 2)])
def test_towers_of_all_kinds_agree(lengths: tuple[int, ...]) -> None:
    model = towers(*lengths, width=16)
    result, _ = assign(model, streams=4)
    assert op_types(result) == ["ParallelRegion"]
    agree(model, result, 16)
