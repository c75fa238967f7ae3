"""Hazard: the result is marked, counted or staged wrongly, or a second run goes on where the first one stopped."""

from __future__ import annotations

from importlib import metadata

import numpy as np
import onnx
import pytest

from dpiframe.graph_passes.pipeline import PASSES, count_nodes, models_after_passes, optimize_model
from dpiframe.graph_passes.workbench import Workbench
from tests.graph_passes.everything import everything
from tests.graph_passes.harness import (
    OP,
    agree,
    batches,
    blocks,
    changes,
    fuse_all,
    gives,
    ids,
    op_types,
    optimize,
    parse,
    refusals,
    session,
    table,
)

TEXT = "(int64[b] a, int64[b] c) => (float[b,8] y) { e = Gather(A, a) f = Gather(C, c) j = Concat<axis=1>(e, f) y = Relu(j) }"


def model() -> onnx.ModelProto:
    return parse(TEXT, A=table(10, 4), C=table(20, 4))


def properties(result: onnx.ModelProto) -> dict[str, str]:
    return {p.key: p.value for p in result.metadata_props}


@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_the_file_is_marked(provider: str) -> None:
    given = model()
    given.metadata_props.add(key="theirs", value="kept")
    given.metadata_props.add(key="dpiframe.version", value="0.0.0")
    result = optimize(given, provider=provider, bad_ids="zero")
    assert properties(result.model) == {
        "theirs": "kept",
        "dpiframe.version": metadata.version("dpiframe"),
        "dpiframe.provider": provider,
        "dpiframe.precision": "fp32",
        "dpiframe.bad_ids": "zero",
    }
    assert result.model.ir_version == 10
    assert [(o.domain, o.version) for o in result.model.opset_import] == [("", 20), ("dpiframe", 1)]


def test_a_model_in_which_nothing_is_fused_is_not_marked() -> None:
    given = parse("(float[b,4] x) => (float[b,4] y) { r = Identity(x) y = Relu(r) }")
    result = optimize(given)
    assert not result.fused
    assert properties(result.model) == {}
    assert (result.lookups_before, result.lookups_fused) == (0, 0)


def test_the_ir_version_rises_to_that_of_functions() -> None:
    given = parse(TEXT, opset=13, ir=7, A=table(10, 4), C=table(20, 4))
    assert optimize(given).model.ir_version == 8


def test_stages_are_the_model_after_each_pass() -> None:
    given = model()
    seen: list[str] = []
    result = optimize_model(given, on_pass=seen.append)
    stages = list(models_after_passes(given))
    names = [kind.name for kind in PASSES]
    assert seen == names == [name for name, _ in stages] == [report.name for report in result.reports]
    assert [op_types(stage) for _, stage in stages] == [
        ["Gather", "Gather", "Concat", "Relu"],
        *[[OP, "Relu"]] * (len(PASSES) - 1),
    ]
    assert stages[-1][1] == result.model
    case = {"a": ids(3, high=10), "c": ids(3, high=20)}
    want = session(given).run(None, case)[0]
    for _, stage in stages:
        onnx.checker.check_model(stage, full_check=True)
        np.testing.assert_array_equal(session(stage).run(None, case)[0], want)


def test_counts() -> None:
    given = parse(
        """(int64[b] a, bool f) => (float[b,4] y) {
            k = Constant<value_float=2.0>()
            e = Gather(A, a)
            y = If (f) <then_branch = t () => (z) { z = Mul(e, k) }, else_branch = s () => (z) { g = Gather(A, a) z = Neg(g) }>
        }""",
        A=table(10, 4),
    )
    assert count_nodes(Workbench(given)) == 5
    result = fuse_all(given)
    assert (result.nodes_before, result.nodes_after) == (5, 5)
    assert (result.lookups_before, result.lookups_fused) == (2, 2)


@pytest.mark.parametrize(
    "options", [{"bad_ids": "clamp"}, {"provider": "cuda"}, {"bad_ids": "zero", "provider": "cuda"}]
)
def test_a_second_run_with_other_options_changes_nothing_either(options: dict[str, str]) -> None:
    once = optimize(model())
    again = optimize_model(once.model, **options)  # type: ignore[arg-type]
    assert not again.fused
    assert again.model == once.model


def test_lookups_that_are_added_later_are_fused_on_their_own() -> None:
    once = optimize(model()).model
    once.graph.node.insert(0, onnx.helper.make_node("Gather", ["C", "c"], ["late"]))
    once.graph.node.append(onnx.helper.make_node("Relu", ["late"], ["z"]))
    once.graph.output.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["b", 4]))
    result = fuse_all(once)
    assert result.fused
    assert sorted(op_types(result.model)) == sorted([OP, f"{OP}_1", "Relu", "Relu"])
    agree(once, result, {"a": ids(3, high=10), "c": ids(3, high=20)})


def test_nothing_of_the_model_is_shared_with_the_result() -> None:
    given = model()
    before = given.SerializeToString(deterministic=True)
    result = optimize_model(given)
    result.model.graph.initializer[0].name = "changed"
    result.model.graph.node[0].name = "changed"
    assert given.SerializeToString(deterministic=True) == before


def test_the_reports_name_what_was_done_and_what_was_not() -> None:
    given = parse(
        "(int64[b] a, int64[b,l,m] s) => (float[b,4] y, float[b,l,m,4] z) { e = Gather(A, a) y = Relu(e) q = Gather(A, s) z = Relu(q) }",
        A=table(10, 4),
    )
    given.graph.node[2].name = "odd_one"
    result = fuse_all(given)
    assert f"{OP}_e: 1 row blocks from 1 tables and 1 sources into 1 outputs" in changes(result)
    assert refusals(result) == {
        "odd_one": "ids of shape ['b', 'l', 'm']: which axis is the batch is unclear",
        "z": "the axes of its result without a fixed size aren't one or two in front",
    }


def test_unknown_operators_and_domains_are_boundaries() -> None:
    given = parse(
        """(int64[b] a, int64[b] c) => (float[b,4] y) {
            i = vendor.Hash(a)
            e = Gather(A, i) f = Gather(A, c)
            m = vendor.Mix(e, f)
            y = NoSuchOperator(m)
        }""",
        imports=', "vendor": 9', A=table(10, 4),
    )  # fmt: skip
    given.graph.value_info.append(onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, ["b"]))
    result = optimize_model(given, bad_ids="clamp")
    assert op_types(result.model) == ["Hash", OP, "Mix", "NoSuchOperator"]
    assert blocks(result) == ["row 0 0 4 0 0:0 0", "row 1 0 4 0 1:0 0"]


def test_ids_of_unknown_type_are_left_alone() -> None:
    given = parse(
        "(int64[b] a) => (float[b,4] y) { i = vendor.Hash(a) y = Gather(A, i) }",
        imports=', "vendor": 9',
        A=table(10, 4),
    )
    result = optimize_model(given)
    assert op_types(result.model) == ["Hash", "Gather"]
    assert refusals(result) == {"y": "the shape of its ids is unknown"}


def test_sequences_and_optionals_around_lookups() -> None:
    given = parse(
        """(int64[b] a, int64[b] c, optional(float[b,4]) o) => (float[b,8] y, bool h) {
            e = Gather(A, a) f = Gather(A, c)
            s = SequenceConstruct(e, f)
            y = ConcatFromSequence<axis=1>(s)
            h = OptionalHasElement(o)
        }""",
        A=table(10, 4),
    )
    result = fuse_all(given)
    assert op_types(result.model) == ["OptionalHasElement", OP, "SequenceConstruct", "ConcatFromSequence"]
    without = parse(
        """(int64[b] a, int64[b] c) => (float[b,8] y) {
            e = Gather(A, a) f = Gather(A, c) s = SequenceConstruct(e, f) y = ConcatFromSequence<axis=1>(s)
        }""",
        A=table(10, 4),
    )
    result = fuse_all(without)
    assert op_types(result.model) == [OP, "SequenceConstruct", "ConcatFromSequence"]
    agree(without, result, *batches({"a": (("b",), 10), "c": (("b",), 10)}))


def test_a_model_with_one_of_everything_twice() -> None:
    once = optimize_model(everything())
    twice = optimize_model(once.model)
    assert once.fused
    assert not twice.fused
    assert twice.model.SerializeToString(deterministic=True) == once.model.SerializeToString(deterministic=True)


def test_nodes_without_names_and_with_equal_names() -> None:
    given = model()
    for node in given.graph.node:
        node.name = "same"
    result = optimize(given)
    assert [n.name for n in result.model.graph.node] == [f"{OP}_j", "same"]
    # ONNX Runtime refuses names that repeat: the result can be run though the original can't
    case = {"a": ids(3, high=10), "c": ids(3, high=20)}
    gives(result, case, *session(model()).run(None, case))


def test_a_graph_output_given_twice() -> None:
    given = parse("(int64[b] a) => (float[b,4] y, float[b,4] y) { y = Gather(A, a) }", A=table(10, 4))
    result = optimize_model(given, bad_ids="clamp")
    assert [v.name for v in result.model.graph.output] == ["y", "y"]
    assert op_types(result.model) == [OP]


def test_nodes_in_any_order() -> None:
    given = model()
    nodes = list(given.graph.node)
    del given.graph.node[:]
    given.graph.node.extend(reversed(nodes))
    result = optimize_model(given)
    assert op_types(result.model) == [OP, "Relu"]
    case = {"a": ids(3, high=10), "c": ids(3, high=20)}
    np.testing.assert_array_equal(session(model()).run(None, case)[0], session(result.model).run(None, case)[0])


def test_a_model_without_nodes() -> None:
    given = parse("(float[2] x) => (float[2] x) { }")
    assert optimize_model(given).model == given
