"""Hazard: a loop over bags is taken in and gives something else than the loop, or one that is none over bags is
taken for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph_passes.bag_models import bags, padded_loop, scan_loop, sequence_loop
from tests.graph_passes.harness import (
    FP32_TOLERANCE,
    agree,
    blocks,
    fails,
    gives,
    op_types,
    optimize,
    parse,
    programs,
    refusals,
    table,
)

FORMS = [scan_loop, sequence_loop]
WEIGHTS = {"weights": np.linspace(-2, 2, 17, dtype=np.float32)}


def check(model: onnx.ModelProto, *cases: dict[str, np.ndarray], block: str = "bag") -> str:
    """All lookups are fused, and the answers those of the loop. Returns the block."""
    result = optimize(model)
    assert result.lookups_fused == result.lookups_before > 0
    assert "Loop" not in op_types(result.model)
    agree(model, result, *cases, tolerance=FP32_TOLERANCE)
    found = [line for line in blocks(result) if line.startswith(block)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_offsets(form: Callable[..., onnx.ModelProto], op: str) -> None:
    empty = "-inf" if op == "max" and form is scan_loop else "0"
    block = check(form(op), *(bags(ids, rows) for ids, rows in ((17, 5), (40, 3), (1, 1), (9, 30))))
    assert block == f"bag 0 0 4 {op} {empty} 0 1:* 0 one 0:0 none"


@pytest.mark.parametrize(("form", "op"), [(sequence_loop, "sum"), *((scan_loop, op) for op in ("sum", "mean", "max"))])
def test_bounds(form: Callable[..., onnx.ModelProto], op: str) -> None:
    model = form(op, bounds=True)
    shorter = bags(17, 5, True)
    shorter["offsets"][-1] = 15
    check(model, bags(17, 5, True), shorter, bags(3, 1, True))
    assert "source 1 bounds" in programs(optimize(model))[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bounds", [False, True])
def test_weights(form: Callable[..., onnx.ModelProto], bounds: bool) -> None:
    block = check(form(weighted=True, bounds=bounds), bags(17, 5, bounds, **WEIGHTS))
    assert block == "bag 0 0 4 sum 0 0 1:* 0 col 2 * 0:0 none"


@pytest.mark.parametrize("list_first", [False, True])
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
def test_padding(op: str, list_first: bool) -> None:
    cases = [bags(17, 5, high=5), bags(6, 2, high=5), bags(40, 3, high=4)]
    cases[1]["ids"] = np.array([3, -17, 3, 1, 3, 2])
    cases[1]["offsets"] = np.array([0, 3])
    assert check(padded_loop(op, list_first=list_first), *cases).endswith("0:0 3")


@pytest.mark.parametrize("form", FORMS)
def test_offsets_in_any_order_are_taken_as_slice_takes_them(form: Callable[..., onnx.ModelProto]) -> None:
    model = form("sum")
    result = optimize(model)
    case = {"ids": np.arange(9), "offsets": np.array([5, 2, -3, 40, 0, 9, -20])}
    agree(model, result, case, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", ["sum", "mean", "max"])
@pytest.mark.parametrize("bounds", [False, True])
def test_a_batch_of_a_fixed_size(form: Callable[..., onnx.ModelProto], op: str, bounds: bool) -> None:
    rows = 4 + bounds
    check(form(op, bounds=bounds, inputs=f"int64[9] ids, int64[{rows}] offsets"), bags(9, 4, bounds))


def test_a_batch_without_bags() -> None:
    result = optimize(scan_loop())
    case = {"ids": np.arange(3), "offsets": np.zeros(0, np.int64)}
    gives(result, case, np.zeros((0, 4), np.float32), reference=False)


@pytest.mark.parametrize("form", FORMS)
def test_ids_outside_the_table_fail_as_before(form: Callable[..., onnx.ModelProto]) -> None:
    model = form()
    case = bags(17, 5)
    case["ids"][:] = 20
    result = optimize(model)
    assert fails(model, case)
    assert fails(result.model, case)
    assert fails(result.model, case, library=True)
    for policy, row in (("zero", np.zeros(4, np.float32)), ("clamp", table(20, 4)[19])):
        lengths = np.diff([*case["offsets"], 17])[:, None]
        gives(optimize(model, bad_ids=policy), case, (lengths * row).astype(np.float32), tolerance=1e-6)


def test_steps_on_ids_and_offsets_are_taken_in() -> None:
    before = "ids_32 = Cast <to = 6> (raw)\nids_64 = Cast <to = 7> (ids_32)\nids = Mod (ids_64, twenty)\n"
    before += "offsets = Mul (halves, two_long)\n"
    inputs = "int32[n] raw, int64[m] halves"
    constants = {"twenty": np.array(20), "two_long": np.array(2)}
    model = scan_loop(before=before, inputs=inputs, constants=constants)
    case = {"raw": np.arange(100, 117, dtype=np.int32), "halves": np.array([0, 2, 2, 7])}
    assert check(model, case) == "bag 0 0 4 sum 0 0 1:*%20 0 one 0:0*2 none"
    assert op_types(optimize(model).model) == ["FusedMultiGather"]


def test_offsets_from_a_row_of_a_matrix_are_a_column_of_the_source() -> None:
    model = scan_loop(
        before="offsets = Gather <axis = 0> (all_offsets, one)", inputs="int64[n] ids, int64[3, m] all_offsets"
    )
    case = {"ids": np.arange(9), "all_offsets": np.array([[0, 1, 2], [0, 4, 4], [0, 0, 0]])}
    assert check(model, case) == "bag 0 0 4 sum 0 0 1:* 0 one 0:1 none"
    assert "source 3 column" in programs(optimize(model))[0]


def test_a_list_that_was_laid_out_flat_is_read_as_it_was() -> None:
    model = scan_loop(before="ids = Reshape (matrix, minus_one)", inputs="int64[n, p] matrix, int64[m] offsets")
    check(model, {"matrix": np.arange(12).reshape(4, 3), "offsets": np.array([0, 5, 5])})
    assert op_types(optimize(model).model) == ["FusedMultiGather"]


def rename(graph: onnx.GraphProto, prefix: str) -> None:
    """Another name for every value, in subgraphs too."""
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = prefix + value.name
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [prefix + name if name else "" for name in names]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g, prefix)


def join(first: onnx.ModelProto, second: onnx.ModelProto) -> onnx.ModelProto:
    """One model with both and their outputs side by side; the second's names begin with `other_`."""
    rename(second.graph, "other_")
    for part in ("node", "input", "initializer"):
        getattr(first.graph, part).extend(getattr(second.graph, part))
    first.graph.node.append(helper.make_node("Concat", ["y", "other_y"], ["joined"], axis=1))
    first.graph.output[0].CopyFrom(helper.make_tensor_value_info("joined", 1, ["k", None]))
    return first


@pytest.mark.parametrize("form", FORMS)
def test_bags_of_one_batch_share_a_node_and_a_join(form: Callable[..., onnx.ModelProto]) -> None:
    second = form("max", dim=3)
    # an exporter may name the batch apart for each input: that the outputs are joined tells that it is one
    second.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "other"
    model = join(form(), second)
    result = optimize(model)
    assert op_types(result.model) == ["FusedMultiGather"]
    assert [line.split()[:4] for line in blocks(result)] == [["bag", "0", "0", "4"], ["bag", "0", "4", "3"]]
    other = {f"other_{name}": values for name, values in bags(30, 5, seed=1).items()}
    agree(model, result, bags(17, 5) | other, tolerance=FP32_TOLERANCE)


def test_bags_are_joined_with_rows_of_their_batch() -> None:
    model = scan_loop(
        inputs="int64[n] ids, int64[m] offsets, int64[m] field, float[m, 2] dense",
        change=("y = Loop", "rows_of_field = Gather (table, field)\nbag_rows = Loop"),
    )
    model.graph.node.append(helper.make_node("Concat", ["bag_rows", "rows_of_field", "dense"], ["y"], axis=1))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 10
    result = optimize(model)
    assert op_types(result.model) == ["FusedMultiGather"]
    assert [line.split()[0] for line in blocks(result)] == ["bag", "row", "copy"]
    more = {"field": np.array([1, 2, 3, 4, 5]), "dense": np.ones((5, 2), np.float32)}
    agree(model, result, bags(17, 5) | more, tolerance=FP32_TOLERANCE)


def test_a_bag_that_two_joins_read_is_pooled_once() -> None:
    model = scan_loop(
        change=("y = Loop", "shared = Loop"), inputs="int64[n] ids, int64[m] offsets, float[m, 1] a, float[m, 2] b"
    )
    for name in ("a", "b"):
        model.graph.node.append(helper.make_node("Concat", ["shared", name], [f"join_{name}"], axis=1))
        model.graph.output.append(helper.make_tensor_value_info(f"join_{name}", 1, ["k", None]))
    del model.graph.output[0]
    result = optimize(model)
    assert sum(line.startswith("bag") for text in programs(result) for line in text.splitlines()) == 1
    dense = {"a": np.ones((5, 1), np.float32), "b": np.ones((5, 2), np.float32)}
    agree(model, result, bags(17, 5) | dense, tolerance=FP32_TOLERANCE)


@pytest.mark.parametrize("opset", [13, 17, 18, 20])
def test_operator_sets(opset: int) -> None:
    check(scan_loop("mean", opset=opset), bags(17, 5))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            ("begin = Gather <axis = 0> (whole, i)", "begin = Gather <axis = 0> (ends, i)"),
            "between one offset and the next",
        ),
        (("trips = Gather <axis = 0> (ends_shape, zero)", "trips = Identity (one)"), "doesn't run once for each bag"),
    ],
)
def test_loops_that_only_look_like_it_say_why(change: tuple[str, str], reason: str) -> None:
    model = scan_loop(change=change)
    result = optimize(model)
    assert result.lookups_fused == 0
    found = [text for text in refusals(result).values() if text.startswith("its loop is none over bags")]
    assert len(found) == 1
    assert reason in found[0]
    agree(model, result, bags(17, 5))


@pytest.mark.parametrize(
    "change",
    [
        ("part = Slice (ids, begin_1d, end_1d, zero_1d)", "part = Slice (ids, end_1d, begin_1d, zero_1d)"),
        ("part = Slice (ids, begin_1d, end_1d, zero_1d)", "part = Slice (ids, begin_1d, end_1d, zero_1d, two_1d)"),
        ("keepdims = 0> (rows, zero_1d)", "keepdims = 0> (rows, one_1d)"),
        ("rows = Gather <axis = 0> (table, part)", "found = Gather <axis = 0> (table, part)\nrows = Relu (found)"),
        ("goes_on = Cast <to = 9> (true)", "goes_on = Less (i, two)"),
        ("y = Loop (trips, true)", "y = Loop (trips, false)"),
    ],
)
def test_other_loops_stay(change: tuple[str, str]) -> None:
    """A lookup in a loop that means something else, or stops early, stays where it is, and so does the answer."""
    model = scan_loop(change=change, constants={"two_1d": np.array([2]), "false": np.array(False)})
    result = optimize(model)
    assert "Loop" in op_types(result.model)
    case = {"ids": np.arange(8), "offsets": np.array([0, 2, 4, 6])}
    if not fails(model, case):
        agree(model, result, case, tolerance=FP32_TOLERANCE, reference=False)


@pytest.mark.parametrize("op", ["mean", "max"])
def test_a_last_bag_that_reaches_behind_its_bound(op: str) -> None:
    """One exporter lets the last bag's mean divide by, and its maximum go over, all that is left of the list."""
    model = sequence_loop(op, bounds=True)
    cases = [bags(17, 5, True), bags(17, 5, True), bags(17, 5, True), bags(4, 1, True)]
    cases[1]["offsets"][-1] = 15
    cases[2]["offsets"][-2:] = 12
    cases[3]["offsets"] = np.array([1, 3])
    block = check(model, *cases)
    assert block == f"bag 0 0 4 {op} 0 0 1:* 0 one 0:0 none"


@pytest.mark.parametrize("op", ["mean", "max"])
def test_a_last_bag_that_reaches_behind_its_bound_among_other_nodes(op: str) -> None:
    model = sequence_loop(op, bounds=True, change=("y = Concat", "inner = Concat"))
    model.graph.node.append(helper.make_node("Tanh", ["inner"], ["y"]))
    cases = [bags(17, 5, True)]
    cases[0]["offsets"][-1] = 14
    check(model, *cases)


@pytest.mark.parametrize(
    "change",
    [
        ("equal = Equal (begin, stop)", "equal = Equal (begin, begin)"),
        ("zeros_row = Identity (zeros)", "zeros_row = Identity (ones_row)"),
        ("next = Add (i, step)", "next = Add (i, two)"),
        ("after = SequenceInsert (before, row)", "after = SequenceInsert (before, row, zero)"),
        ("y = ConcatFromSequence <axis = 0> (filled)", "z = ConcatFromSequence <axis = 1> (filled)\ny = Identity (z)"),
        ("goes_on = Less (next, bags)", "goes_on = Less (i, bags)"),
        ("first = Less (zero, bags)", "first = Less (one, bags)"),
    ],
)
def test_sequences_of_something_else_stay(change: tuple[str, str]) -> None:
    model = sequence_loop(change=change, constants={"ones_row": np.ones((1, 4), np.float32)})
    result = optimize(model)
    assert result.lookups_fused == 0
    assert "Loop" in op_types(result.model)


@pytest.mark.parametrize(
    "change",
    [
        ("shifted = Add (id, table_rows)", "shifted = Add (id, two)"),
        ("below = Less (id, zero_like)", "below = Less (id, one)"),
        ("goes_on_2 = Less (j_next, stop)", "goes_on_2 = Less (j_next, begin)"),
        ("j_next = Add (j, step)", "j_next = Add (j, two)"),
        ("longer = Concat <axis = 0> (known, j_1d)", "longer = Concat <axis = 0> (j_1d, known)"),
        ("is_no_padding = Not (is_padding)", "is_no_padding = Identity (is_padding)"),
        ("taken = Gather <axis = 0> (rows, kept)", "taken = Gather <axis = 0> (wide_ones, kept)"),
    ],
)
def test_inner_loops_that_list_other_positions_stay(change: tuple[str, str]) -> None:
    result = optimize(padded_loop(change=change))
    assert "FusedMultiGather" not in op_types(result.model)


def test_a_table_of_another_type_is_left_alone() -> None:
    model = scan_loop()
    model.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.ones((20, 4), np.float64), model.graph.initializer[0].name)
    )
    for value in model.graph.output:
        value.type.tensor_type.elem_type = 11
    body = next(a.g for n in model.graph.node if n.op_type == "Loop" for a in n.attribute)
    body.output[1].type.tensor_type.elem_type = 11
    result = optimize(model)
    assert not result.fused


def test_a_loop_inside_a_branch() -> None:
    """A loop over bags in a branch of an If is taken in there."""
    inner = scan_loop().graph
    names = {value.name for value in inner.input}
    graph = helper.make_graph([*inner.node], "then", [], [*inner.output], [*inner.initializer])
    other = parse(
        "(int64[n] ids, int64[m] offsets) => (float[k, 4] y) { y = Cast <to = 1> (zeros) }",
        zeros=np.zeros((1, 4), np.float32),
    )
    otherwise = helper.make_graph([*other.graph.node], "else", [], [*other.graph.output], [*other.graph.initializer])
    node = helper.make_node("If", ["choice"], ["result"], then_branch=graph, else_branch=otherwise)
    main = helper.make_graph(
        [node],
        "g",
        [*(v for v in inner.input if v.name in names), helper.make_tensor_value_info("choice", 9, [])],
        [helper.make_tensor_value_info("result", 1, ["k", 4])],
    )
    model = helper.make_model(main, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    result = optimize(model)
    assert result.lookups_fused == result.lookups_before == 1
    for choice in (True, False):
        agree(model, result, bags(17, 5) | {"choice": np.array(choice)}, tolerance=FP32_TOLERANCE)
