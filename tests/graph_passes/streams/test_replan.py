"""Other streams and another order for a model that has regions already."""

from __future__ import annotations

import onnx
import pytest

from dpiframe.graph_passes.pipeline import PASSES, optimize_model
from dpiframe.graph_passes.streams.assign import AssignStreams
from dpiframe.graph_passes.streams.replan import replan
from dpiframe.graph_passes.streams.schedule import Order
from tests.custom_ops.regions import feed, two_modules
from tests.graph_passes.harness import op_types, same, session


def programs(model: onnx.ModelProto) -> list[str]:
    return [node.attribute[0].s.decode() for node in model.graph.node if node.op_type.startswith("ParallelRegion")]


def launches(model: onnx.ModelProto) -> list[tuple[str, str]]:
    (program,) = programs(model)
    lines = program.splitlines()
    nodes = [i for i, line in enumerate(lines) if line.startswith("node ")]
    return [(lines[i + 1], lines[i].split()[2]) for i in nodes]


@pytest.mark.parametrize("order", ["breadth", "depth"])
@pytest.mark.parametrize("streams", [1, 2, 3])
def test_as_if_it_had_been_optimized_so(streams: int, order: Order) -> None:
    given = two_modules()
    first = optimize_model(given, provider="cuda", streams=2).model
    wanted = optimize_model(given, provider="cuda", streams=streams, launch_order=order).model
    result = replan(first, streams, order)
    onnx.checker.check_model(result, full_check=True)
    assert op_types(result) == op_types(wanted)
    assert sorted(launches(result)) == sorted(launches(wanted))
    assert {(p.key, p.value) for p in result.metadata_props} == {(p.key, p.value) for p in wanted.metadata_props}
    assert len(result.functions) == len(wanted.functions)
    for got, want in zip(session(result).run(None, feed(5)), session(given).run(None, feed(5)), strict=True):
        same(got, want, 1e-6, "answers")


def test_the_given_model_is_not_changed() -> None:
    first = optimize_model(two_modules(), provider="cuda").model
    before = first.SerializeToString(deterministic=True)
    replan(first, 1, "breadth")
    assert first.SerializeToString(deterministic=True) == before


def test_fused_nodes_without_a_region_get_one() -> None:
    apart = tuple(kind for kind in PASSES if kind is not AssignStreams)
    first = optimize_model(two_modules(), provider="cuda", passes=apart).model
    assert "ParallelRegion" not in op_types(first)
    assert op_types(replan(first, 2, "breadth")) == ["ParallelRegion"]
