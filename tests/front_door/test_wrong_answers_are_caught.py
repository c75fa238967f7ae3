"""Hazard: an optimized model with other answers passes verification."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dpiframe
from dpiframe.graph_passes import pipeline
from dpiframe.graph_passes.pipeline import PipelineResult
from tests.front_door.helpers import TABLE_ROWS, ctr_model, model_without_lookups
from tests.graph_passes.harness import parse

Change = Callable[[onnx.ModelProto], None]


def rewrite(model: onnx.ModelProto, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    tensor = next(t for t in model.graph.initializer if t.name == name)
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor).copy()), name))


def one_row_of_a_table(model: onnx.ModelProto) -> None:
    def change(table: np.ndarray) -> np.ndarray:
        table[0] += 1
        return table

    rewrite(model, "table_1", change)


def last_row_of_a_table(model: onnx.ModelProto) -> None:
    def change(table: np.ndarray) -> np.ndarray:
        table[-1] += 1
        return table

    rewrite(model, "table_1", change)


def the_weights_a_little(model: onnx.ModelProto) -> None:
    rewrite(model, "weight", lambda w: w + np.float32(1e-4))


def other_columns(model: onnx.ModelProto) -> None:
    rewrite(model, "column_0", lambda c: c + 2)


def negative_ids_count_from_the_start(model: onnx.ModelProto) -> None:
    """Without this, an Abs before the lookup has no effect on any id in the table."""
    lookup = next(n for n in model.graph.node if n.name == "lookup_0")
    position = list(model.graph.node).index(lookup)
    model.graph.node.insert(position, helper.make_node("Abs", ["id_0"], ["positive"], name="absolute"))
    next(n for n in model.graph.node if n.name == "lookup_0").input[1] = "positive"


def nan_becomes_zero(model: onnx.ModelProto) -> None:
    join = next(n for n in model.graph.node if n.name == "join")
    join.input[-1] = "clean"
    join_at = list(model.graph.node).index(join)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    nodes = [
        helper.make_node("IsNaN", ["dense"], ["missing"], name="is_nan"),
        helper.make_node("Where", ["missing", "zero", "dense"], ["clean"], name="replace_nan"),
    ]
    for i, node in enumerate(nodes):
        model.graph.node.insert(join_at + i, node)


def another_output_shape(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Identity", ["click"], ["unused"], name="more"))
    head = next(n for n in model.graph.node if n.name == "head")
    head.input[0] = "flat"
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "one_axis"))
    model.graph.node.insert(
        list(model.graph.node).index(head), helper.make_node("Reshape", ["logit", "one_axis"], ["flat"], name="flatten")
    )
    del model.graph.output[0].type.tensor_type.shape.dim[1]


def fails_on_some_ids(model: onnx.ModelProto) -> None:
    rewrite(model, "table_2", lambda table: table[: TABLE_ROWS[2] - 1])


def another_output_name(model: onnx.ModelProto) -> None:
    next(n for n in model.graph.node if n.name == "head").output[0] = "other"
    model.graph.output[0].name = "other"


CHANGES: list[tuple[Change, str]] = [
    (one_row_of_a_table, r"output 'click'\[\d+, 0\] is \S+, the original's \S+$"),
    (last_row_of_a_table, r"output 'click'\[\d+, 0\] is \S+, the original's \S+$"),
    (the_weights_a_little, r"output 'click'\[\d+, 0\] is \S+, the original's \S+$"),
    (other_columns, "output 'click'"),
    (negative_ids_count_from_the_start, "case 'negative ids'"),
    (nan_becomes_zero, r"case 'NaN and infinite dense values'.*the original's nan"),
    (another_output_shape, r"in shape is \[1\], the original's \[1, 1\]"),
    (fails_on_some_ids, "the original runs, the optimized model fails: Gather node 'lookup_2'"),
    (another_output_name, r"the outputs are \['other'\], the original's \['click'\]"),
]


@pytest.mark.parametrize(("change", "named"), CHANGES, ids=[c.__name__ for c, _ in CHANGES])
def test_verify_finds_and_names_the_difference(model_file: Path, change: Change, named: str) -> None:
    model = ctr_model()
    change(model)
    wrong = model_file.with_name("wrong.onnx")
    onnx.save(model, wrong)
    with pytest.raises(dpiframe.VerificationError, match=named) as caught:
        dpiframe.verify(model_file, wrong)
    assert caught.value.result.mismatch is not None


def an_input_of_another_name(model: onnx.ModelProto) -> None:
    model.graph.input[1].name = "more"
    next(n for n in model.graph.node if n.name == "join").input[-1] = "more"


def an_input_of_another_type(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32


def an_input_of_another_rank(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim.add(dim_value=1)


def an_input_of_another_size(model: onnx.ModelProto) -> None:
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 9


INPUTS: list[tuple[Change, str]] = [
    (an_input_of_another_name, "'dense' is missing; 'more' is not in the original"),
    (an_input_of_another_type, "'ids' is int32[batch, 3], in the original int64[batch, 3]"),
    (an_input_of_another_rank, "'ids' is int64[batch, 3, 1], in the original int64[batch, 3]"),
    (an_input_of_another_size, "'dense' is float32[batch, 9], in the original float32[batch, 3]"),
]


@pytest.mark.parametrize(("change", "named"), INPUTS, ids=[c.__name__ for c, _ in INPUTS])
def test_verify_names_inputs_that_differ(model_file: Path, change: Change, named: str) -> None:
    model = ctr_model()
    change(model)
    other = model_file.with_name("other.onnx")
    onnx.save(model, other)
    with pytest.raises(dpiframe.UsageError) as caught:
        dpiframe.verify(model_file, other)
    assert str(caught.value) == f"{other}: its inputs are not those of {model_file}: {named}"


def test_the_order_and_the_sizes_names_of_inputs_are_free(model_file: Path) -> None:
    model = ctr_model(batch="rows")
    ids, dense = model.graph.input
    del dense.type.tensor_type.shape.dim[:], model.graph.input[:]
    dense.type.tensor_type.ClearField("shape")
    model.graph.input.extend([dense, ids])
    other = model_file.with_name("other.onnx")
    onnx.save(model, other)
    assert dpiframe.verify(model_file, other).compared


def test_equal_models_verify_on_every_case(model_file: Path) -> None:
    result = dpiframe.verify(model_file, model_file)
    assert result.mismatch is None
    assert len(result.compared) >= 9
    assert result.skipped == []
    assert result.largest_difference == 0
    assert [latency.batch for latency in result.latencies] == [1, 32, 256]
    assert all(x.ratio > 0 and x.original_ms > 0 and x.optimized_ms > 0 and x.runs > 0 for x in result.latencies)


def test_float16_models_are_held_to_the_float16_bound(tmp_path: Path) -> None:
    model, near, far = ctr_model(dtype=np.float16), ctr_model(dtype=np.float16), ctr_model(dtype=np.float16)
    rewrite(near, "weight", lambda w: np.nextafter(w, np.float16(9)))
    rewrite(far, "weight", lambda w: w + np.float16(0.05))
    for name, proto in (("model", model), ("near", near), ("far", far)):
        onnx.save(proto, tmp_path / f"{name}.onnx")
    assert dpiframe.verify(tmp_path / "model.onnx", tmp_path / "near.onnx").largest_difference > 0
    with pytest.raises(dpiframe.VerificationError, match="output 'click'"):
        dpiframe.verify(tmp_path / "model.onnx", tmp_path / "far.onnx")


def test_user_inputs_find_what_generated_ones_cannot(tmp_path: Path, model_file: Path) -> None:
    model = ctr_model()
    join = next(n for n in model.graph.node if n.name == "join")
    at = list(model.graph.node).index(join)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(12345.5), "needle"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    model.graph.node.insert(at, helper.make_node("Equal", ["dense", "needle"], ["found"], name="find"))
    model.graph.node.insert(at + 1, helper.make_node("Where", ["found", "zero", "dense"], ["used"], name="drop"))
    next(n for n in model.graph.node if n.name == "join").input[-1] = "used"
    onnx.save(model, tmp_path / "needle.onnx")
    dpiframe.verify(model_file, tmp_path / "needle.onnx")
    dense = np.full((3, 3), 12345.5, np.float32)
    np.savez(tmp_path / "real.npz", ids=np.zeros((3, 3), np.int64), dense=dense)
    with pytest.raises(dpiframe.VerificationError, match=r"case 'the inputs in real.npz'"):
        dpiframe.verify(model_file, tmp_path / "needle.onnx", inputs=tmp_path / "real.npz")


def test_optimize_writes_nothing_and_names_the_pass(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the pass after the first one had taken another row of a table."""
    real, real_stages = pipeline.optimize_model, pipeline.models_after_passes

    def broken(model: onnx.ModelProto, **options: object) -> PipelineResult:
        result = real(model, **options)  # type: ignore[arg-type]
        one_row_of_a_table(result.model)
        return result

    def broken_stages(model: onnx.ModelProto, **options: str) -> Iterator[tuple[str, onnx.ModelProto]]:
        for number, (name, stage) in enumerate(real_stages(model, **options)):
            if number:
                one_row_of_a_table(stage)
            yield name, stage

    monkeypatch.setattr(pipeline, "optimize_model", broken)
    monkeypatch.setattr(pipeline, "models_after_passes", broken_stages)
    before = sorted(model_file.parent.iterdir())
    with pytest.raises(dpiframe.VerificationError) as caught:
        dpiframe.optimize(model_file)
    second = [kind.name for kind in pipeline.PASSES][1]
    way_out = f"they first differ after the pass {second} (to leave it out: --without {second}); nothing was written"
    assert way_out in str(caught.value)
    assert "output 'click'" in str(caught.value)
    assert sorted(model_file.parent.iterdir()) == before


def test_a_result_that_the_checker_rejects_is_not_written(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.optimize_model

    def broken(model: onnx.ModelProto, **options: object) -> PipelineResult:
        result = real(model, **options)  # type: ignore[arg-type]
        result.model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
        return result

    monkeypatch.setattr(pipeline, "optimize_model", broken)
    with pytest.raises(
        dpiframe.VerificationError, match=r"onnx.checker rejects the optimized model: .*; nothing was written"
    ):
        dpiframe.optimize(model_file)
    assert list(model_file.parent.iterdir()) == [model_file]


def test_models_without_ids_are_compared_as_well(tmp_path: Path) -> None:
    onnx.save(model_without_lookups(), tmp_path / "relu.onnx")
    other = model_without_lookups()
    other.graph.node[0].op_type = "Abs"
    onnx.save(other, tmp_path / "abs.onnx")
    with pytest.raises(dpiframe.VerificationError, match="output 'y'"):
        dpiframe.verify(tmp_path / "relu.onnx", tmp_path / "abs.onnx")


def test_a_row_that_only_the_highest_id_reads_in_a_table_of_many(tmp_path: Path) -> None:
    """Its effect is as small as that of any other row, so dense values must not be large beside it."""
    rows = np.random.default_rng(0).standard_normal((50_000, 4)).astype(np.float32)
    text = """(int64[b,1] id, float[b,4] dense) => (float[b,1,4] y) {
        row = Gather(W, id) wide = Unsqueeze(dense, one) y = Add(row, wide)
    }"""
    paths = []
    for name, last in (("original", 0.0), ("wrong", 0.01)):
        rows[-1] += np.float32(last)
        paths.append(tmp_path / f"{name}.onnx")
        onnx.save(parse(text, W=rows, one=np.array([1])), paths[-1])
    with pytest.raises(dpiframe.VerificationError, match="all ids at their maximum"):
        dpiframe.verify(*paths)
