"""What `inspect` says of a model: tables, fields, how ids arrive, branches, bytes and FLOP."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from dpiframe.graph_passes.inspection import inspect_model
from dpiframe.graph_passes.pipeline import optimize_model
from tests.graph_passes.bag_models import scan_loop

CROSS_AND_DEEP = """
<ir_version: 10, opset_import: ["": 20]>
model (int64[batch,3] ids, float[batch,2] dense) => (float[batch,1] y)
<int64[1] one = {1}, int64[2] flat = {-1, 10}> {
  first = Constant<value_int=0>()
  second = Constant<value_int=1>()
  third = Constant<value_int=2>()
  a = Gather<axis=1>(ids, first)
  b = Gather<axis=1>(ids, second)
  c = Gather<axis=1>(ids, third)
  ea = Gather(user, a)
  eb = Gather(item, b)
  ec = Gather(item, c)
  x = Concat<axis=1>(ea, eb, ec, dense)
  cross = Gemm(x, w_cross)
  crossed = Mul(x, cross)
  hidden = Gemm(x, w_deep)
  deep = Relu(hidden)
  both = Concat<axis=1>(crossed, deep)
  y = Gemm(both, w_head)
}
"""


def cross_and_deep() -> onnx.ModelProto:
    model = parser.parse_model(CROSS_AND_DEEP)
    shapes = {"user": (50, 4), "item": (20, 2), "w_cross": (10, 10), "w_deep": (10, 6), "w_head": (16, 1)}
    rng = np.random.default_rng(0)
    for name, shape in shapes.items():
        model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name))
    return model


def test_tables_with_their_sizes_and_sharing() -> None:
    tables = {t.name: t for t in inspect_model(cross_and_deep()).tables}
    assert {n: (t.rows, t.dim, t.bytes, t.shared) for n, t in tables.items()} == {
        "user": (50, 4, 800, False),
        "item": (20, 2, 160, True),
    }


def test_fields_name_the_column_that_their_ids_arrive_in() -> None:
    fields = inspect_model(cross_and_deep()).fields
    assert [(f.ids, f.type, f.table, f.dim, f.kind) for f in fields] == [
        ("ids[0]", "int64", "user", 4, "one id"),
        ("ids[1:3]", "int64", "item", 2, "2 ids"),
    ]


def test_branches_and_head_are_told_apart() -> None:
    found = inspect_model(cross_and_deep())
    assert [b.operators for b in found.branches] == [{"Gemm": 1, "Mul": 1}, {"Gemm": 1, "Relu": 1}]
    assert [b.parameters for b in found.branches] == [100, 60]
    assert [b.flop for b in found.branches] == [2 * 10 * 10 + 10, 2 * 10 * 6 + 6]
    assert found.head is not None
    assert found.head.operators == {"Concat": 1, "Gemm": 1}
    assert found.flop_per_row == sum(b.flop for b in found.branches) + found.head.flop


def test_bytes_moved_by_lookups_count_reads_and_writes() -> None:
    # 4 + 2 + 2 embedding elements and 2 dense ones, each read once and written once
    assert inspect_model(cross_and_deep()).lookup_bytes_per_row == 2 * 4 * (4 + 2 + 2 + 2)


def test_weights_leave_out_tables() -> None:
    assert inspect_model(cross_and_deep()).weight_bytes >= 4 * (100 + 60 + 16)
    assert inspect_model(cross_and_deep()).table_bytes == 960


def test_the_plan_and_the_json_form() -> None:
    found = inspect_model(cross_and_deep())
    assert (found.lookups_before, found.lookups_fused) == (3, 3)
    assert found.nodes_before == 13
    assert found.nodes_after == 5
    plain = json.loads(json.dumps(found.to_json()))
    assert plain["tables"][1]["shared"]
    assert plain["inputs"]["ids"] == "int64[batch, 3]"


def test_the_model_is_left_as_it_was() -> None:
    model = cross_and_deep()
    before = model.SerializeToString()
    inspect_model(model)
    assert model.SerializeToString() == before


def test_a_pooled_sequence_and_an_offset_table() -> None:
    model = parser.parse_model("""
    <ir_version: 10, opset_import: ["": 20]>
    model (int64[batch,5] history, int64[batch,2] ids) => (float[batch,4] pooled, float[batch,2,4] rows)
    <int64[1] axis = {1}, int64[1,2] offsets = {0, 30}> {
      e = Gather(table, history)
      pooled = ReduceMean<keepdims=0>(e, axis)
      shifted = Add(ids, offsets)
      rows = Gather(table, shifted)
    }
    """)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((60, 4), np.float32), "table"))
    fields = inspect_model(model).fields
    assert [(f.ids, f.steps, f.kind) for f in fields] == [
        ("history[0:5]", "", "5 ids, mean"),
        ("ids[0:2]", "an offset each", "2 ids"),
    ]


def test_bags_are_fields_with_any_number_of_ids() -> None:
    found = inspect_model(scan_loop("mean"))
    assert [(f.ids, f.table, f.dim, f.kind) for f in found.fields] == [("ids", "table", 4, "any number of ids, mean")]
    assert [(t.name, t.rows, t.lookups) for t in found.tables] == [("table", 20, 1)]


@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_an_optimized_model_has_the_parts_that_it_was_made_of(provider: str) -> None:
    # on CUDA the lookup lies in a ParallelRegion, beside ops whose programs are in other languages
    model = cross_and_deep()
    before = inspect_model(model, provider)
    after = inspect_model(optimize_model(model, provider=provider).model, provider)
    for part in ("tables", "fields", "lookup_bytes_per_row", "flop_per_row"):
        assert getattr(after, part) == getattr(before, part)
    assert [b.operators for b in after.branches] == [b.operators for b in before.branches]
    assert (before.fused, after.lookups_before) == ({}, 0)
    assert after.nodes_after == after.nodes_before == before.nodes_after
    assert after.fused["FusedMultiGather"] == 1
    assert ("ParallelRegion" in after.fused) == ("FusedGemm" in after.fused) == (provider == "cuda")
    assert json.loads(json.dumps(after.to_json()))["fused"] == after.fused


def test_only_a_lookups_program_is_read_as_one() -> None:
    text = """
    <ir_version: 10, opset_import: ["": 20]>
    model (float[batch,6] x) => (float[batch,6] y) { a = Mul(x, x) b = Sub(a, x) c = Relu(b) y = Add(c, x) }
    """
    optimized = optimize_model(parser.parse_model(text), provider="cuda").model
    found = inspect_model(optimized, "cuda")
    assert found.fused == {"FusedElementwise": 1}
    assert (found.tables, found.fields) == ([], [])
