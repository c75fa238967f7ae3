"""Hazard: nodes in sessions: what ONNX Runtime believes about shapes, wrong inputs, threads, misaligned constants."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, external_data_helper, helper

from tests.custom_ops import elementwise_reference as reference
from tests.custom_ops import models
from tests.custom_ops.elementwise_models import feeds, model_of, node, program_model, session
from tests.custom_ops.test_elementwise_rows import ONE_AXIS, TWO_AXES, inputs_of

GATE = "elementwise 1\nrows 1\ninput f32 x 8\ninput f32 - 8\nsigmoid f32 8 : 0\nmul f32 8 : 2 1\n"
GATE += "sum f32 : 3 0\ncast i64 8 : 0\noutput 3\noutput 4\noutput 5\n"


def gate_inputs(rows: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((rows, 8), (8,))]


def gate_outputs() -> list[onnx.ValueInfoProto]:
    return [info("y", None), info("total", None), info("whole", None, TensorProto.INT64)]


def info(name: str, shape: list[int | str | None] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.parametrize("batch", ["B", None, 3])
def test_types_and_shapes_of_all_outputs_are_inferred(batch: str | int | None) -> None:
    nodes = [node(GATE, ["x", "w"], ["y", "total", "whole"])]
    made = models.session(model_of(nodes, [info("x", [batch, 8]), info("w", [8])], gate_outputs()))
    shapes = [output.shape for output in made.get_outputs()]
    assert [output.type for output in made.get_outputs()] == ["tensor(float)", "tensor(float)", "tensor(int64)"]
    assert [shape[1:] for shape in shapes] == [[8], [], [8]]
    assert len({shape[0] for shape in shapes}) == 1
    if batch is not None:
        assert shapes[0][0] == batch
    x, w = gate_inputs(3)
    reference.compare(GATE, [x, w], made.run(None, {"x": x, "w": w}))


def test_the_row_axes_come_from_whichever_input_has_them() -> None:
    nodes = [node(TWO_AXES, ["c", "a", "b", "w"], ["y0", "y1", "y2"])]
    inputs = [info("c", ["B", "L", 5]), info("a", [7, 1, 5]), info("b", [1, "M", 5]), info("w", [5])]
    made = models.session(model_of(nodes, inputs, [info(f"y{i}", None) for i in range(3)]))
    assert made.get_outputs()[0].shape == [7, "L", 5]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((7, 3, 5), (7, 1, 5), (1, 3, 5), (5,))]
    reference.compare(TWO_AXES, arrays, made.run(None, dict(zip("cabw", arrays, strict=True))))


def test_inside_a_branch() -> None:
    branch = helper.make_graph([node(GATE, ["x", "w"], ["y", "total", "whole"])], "then", [], [info("y", ["B", 8])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "else", [], [info("z", ["B", 8])])
    nodes = [helper.make_node("If", ["flag"], ["out"], then_branch=branch, else_branch=other)]
    inputs = [info("flag", [], TensorProto.BOOL), info("x", ["B", 8]), info("w", [8])]
    made = models.session(model_of(nodes, inputs, [info("out", ["B", 8])]))
    x, w = gate_inputs()
    (out,) = made.run(None, {"flag": np.array(True), "x": x, "w": w})
    np.testing.assert_allclose(out, reference.run(GATE, [x, w])[0], rtol=1e-6)
    np.testing.assert_array_equal(made.run(None, {"flag": np.array(False), "x": x, "w": w})[0], -x)


def test_before_and_behind_other_nodes_at_every_batch_size() -> None:
    weight = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["hidden"]),
        node(GATE, ["hidden", "w"], ["gated", "total", "whole"]),
        helper.make_node("MatMul", ["gated", "weight"], ["y"]),
    ]
    _, w = gate_inputs()
    made = models.session(
        model_of(nodes, [info("x", ["B", 8])], [info("y", ["B", 8])], {"weight": weight, "w": w}), threads=2
    )
    for rows in (0, 1, 7, 64, 1000):
        x = gate_inputs(rows)[0]
        gated = reference.run(GATE, [x @ weight, w])[0]
        np.testing.assert_allclose(made.run(None, {"x": x})[0], gated @ weight, rtol=1e-4, atol=1e-4)


def test_every_name_of_the_pool() -> None:
    text = "elementwise 1\nrows 1\ninput f32 x 3\nconst f32 {}\nadd f32 3 : 0 1\noutput 2\n"
    names = ["FusedElementwise", *(f"FusedElementwise_{i}" for i in range(1, 64))]
    nodes = [node(text.format(i), ["x"], [f"y{i}"], name, f"node{i}") for i, name in enumerate(names)]
    made = models.session(model_of(nodes, [info("x", ["B", 3])], [info(f"y{i}", None) for i in range(64)]))
    x = np.ones((2, 3), np.float32)
    for i, y in enumerate(made.run(None, {"x": x})):
        np.testing.assert_array_equal(y, x + i)


@pytest.mark.parametrize("shape", [(8,), (1, 8), (1, 1, 1, 8)])
def test_leading_ones_of_what_has_no_rows(shape: tuple[int, ...]) -> None:
    x, w = gate_inputs()
    made = models.session(
        model_of(
            [node(GATE, ["x", "w"], ["y", "total", "whole"])],
            [info("x", ["B", 8]), info("w", list(shape))],
            [info("y", None)],
        )
    )
    np.testing.assert_allclose(
        made.run(None, {"x": x, "w": w.reshape(shape)})[0], reference.run(GATE, [x, w])[0], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            ((5, 9), (8,)),
            r"FusedElementwise node 'fused': input 'x' has shape \[5, 9\], but the program says \[rows, 8\]",
        ),
        (((5, 8), (9,)), r"input 'w' has shape \[9\], but the program says \[1, 8\]"),
        (((5, 8), (2, 8)), r"input 'w' has shape \[2, 8\], but the program says \[1, 8\]"),
        (((5, 1, 8), (8,)), r"input 'x' has shape \[5, 1, 8\], but"),
        (((8,), (8,)), r"input 'x' has shape \[8\], but"),
        (((5, 8), ()), r"input 'w' has shape \[\], but"),
    ],
)
def test_wrong_shapes_are_named(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    inputs = [info("x", [None] * len(shapes[0])), info("w", [None] * len(shapes[1]))]
    made = models.session(model_of([node(GATE, ["x", "w"], ["y", "total", "whole"])], inputs, [info("total", None)]))
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    with pytest.raises(Exception, match=message):
        made.run(None, dict(zip("xw", arrays, strict=True)))


def test_inputs_that_disagree_are_named() -> None:
    made = session(TWO_AXES)
    arrays = [np.zeros(shape, np.float32) for shape in ((2, 3, 5), (2, 1, 5), (1, 4, 5), (5,))]
    with pytest.raises(Exception, match=r"input 'x2' has 4 rows along axis 1 where 'x0' has 3"):
        made.run(None, feeds(arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("rows 1", "rows 7"), r"FusedElementwise node 'fused': attribute 'program', line 2, field 2 \(row axes\)"),
        (("input f32 - 8\n", ""), r"has 2 inputs, but its program lists 1"),
        (("output 5\n", ""), r"has 3 outputs, but its program lists 2"),
        (("input f32 - 8", "input f64 - 8"), r"attribute 'program', line 6"),
        (("input f32 - 8", "input f32 - 7"), r"attribute 'program', line 6"),
    ],
)
def test_a_wrong_program_stops_the_session(change: tuple[str, str], message: str) -> None:
    text = GATE.replace(*change)
    if message.startswith("has 2 inputs"):
        text = "elementwise 1\nrows 1\ninput f32 x 8\nneg f32 8 : 0\noutput 1\noutput 1\noutput 1\n"
    nodes = [node(text, ["x", "w"], ["y", "total", "whole"])]
    with pytest.raises(Exception, match=message):
        models.session(model_of(nodes, [info("x", ["B", 8]), info("w", [8])], gate_outputs()))


def test_a_wrong_type_and_a_wrong_constant_stop_the_session() -> None:
    nodes = [node(GATE, ["x", "w"], ["y", "total", "whole"])]
    inputs = [info("x", ["B", 8], TensorProto.DOUBLE), info("w", [8])]
    with pytest.raises(Exception, match="input 'x' is not of the type that the program says: float32"):
        models.session(model_of(nodes, inputs, [info("y", None)]))
    with pytest.raises(Exception, match=r"input 'w' has shape \[7\], but the program says \[1, 8\]"):
        models.session(model_of(nodes, [info("x", ["B", 8])], [info("y", None)], {"w": np.zeros(7, np.float32)}))


@pytest.mark.parametrize("pool_threads", [1, 2])
def test_16_threads_in_one_session(pool_threads: int) -> None:
    made = session(ONE_AXIS, threads=pool_threads)
    cases = [inputs_of(rows) for rows in (1, 2, 30, 257, 1500, 3000)]
    expected = [made.run(None, feeds(inputs)) for inputs in cases]
    for inputs, outputs in zip(cases, expected, strict=True):
        reference.compare(ONE_AXIS, inputs, outputs)

    def run(thread: int) -> None:
        for turn in range(20):
            number = (thread * 5 + turn) % len(cases)
            for actual, wanted in zip(made.run(None, feeds(cases[number])), expected[number], strict=True):
                np.testing.assert_array_equal(actual, wanted)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(16)))


@pytest.mark.parametrize("offset", [4, 12, 4100])
@pytest.mark.parametrize("kind", ["f32", "f64", "i64"])
def test_constants_mapped_from_a_file_at_an_odd_offset(tmp_path: Path, offset: int, kind: str) -> None:
    text = f"elementwise 1\nrows 1\ninput {kind} x 40\ninput {kind} - 40\nadd {kind} 40 : 0 1\nsum {kind} : 2 0\n"
    text += f"mul {kind} 40 : 0 1\nsum {kind} : 4 0\noutput 2\noutput 3\noutput 5\n"
    dtype = {"f32": np.float32, "f64": np.float64, "i64": np.int64}[kind]
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((33, 40), (40,)))
    model = program_model(text, {1: w})
    (tmp_path / "weights.bin").write_bytes(b"x" * offset + w.tobytes())
    tensor = model.graph.initializer[0]
    external_data_helper.set_external_data(tensor, "weights.bin", offset, w.nbytes)
    tensor.ClearField("raw_data")
    onnx.save(model, tmp_path / "model.onnx")
    made = ort.InferenceSession(tmp_path / "model.onnx", models.options(), providers=["CPUExecutionProvider"])
    reference.compare(text, [x, w], made.run(None, {"x0": x}))


def test_a_constant_that_callers_may_override_is_read_at_every_call() -> None:
    x, w = gate_inputs()
    nodes = [node(GATE, ["x", "w"], ["y", "total", "whole"])]
    made = models.session(model_of(nodes, [info("x", ["B", 8]), info("w", [8])], [info("y", None)], {"w": w}))
    for weight in (w, w + 1):
        (y,) = made.run(None, {"x": x, "w": weight})
        np.testing.assert_allclose(y, reference.run(GATE, [x, weight])[0], rtol=1e-6)
    np.testing.assert_allclose(made.run(None, {"x": x})[0], reference.run(GATE, [x, w])[0], rtol=1e-6)
