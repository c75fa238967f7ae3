"""Whether programs mean what their bodies do: every fused node's inputs and outputs, as ONNX Runtime computes them from
the bodies, against the numpy reading of the program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from dpiframe.graph_passes.canonicalize.shape_plumbing import fix_shapes
from dpiframe.graph_passes.elementwise.lines import RefusedError
from dpiframe.graph_passes.elementwise.lower import Lowered, Lowering
from dpiframe.graph_passes.elementwise.rows import fixed_batch
from dpiframe.graph_passes.functions import ELEMENTWISE, pool_names
from dpiframe.graph_passes.workbench import Workbench
from tests.custom_ops import elementwise_reference
from tests.graph_passes.harness import Arrays, fused_nodes, session

NAMES = pool_names(ELEMENTWISE)
TOLERANCE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-6}


Comparison = Callable[[np.ndarray, np.ndarray, str], None]


def near(got: np.ndarray, want: np.ndarray, what: str) -> None:
    """|a - b| <= tolerance * max(1, max|b|); integers and bools are equal, NaN and infinities in the same places."""
    assert got.shape == want.shape, f"{got.shape} for {want.shape}: {what}"
    assert got.dtype == want.dtype, f"{got.dtype} for {want.dtype}: {what}"
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, what)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite], what)
    bound = TOLERANCE[str(got.dtype)] * max(1.0, float(np.abs(want[finite]).max(initial=0)))
    error = np.abs(got[finite].astype(np.float64) - want[finite]).max(initial=0)
    assert error <= bound, f"{error} of {bound}: {what}"


def elementwise_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in fused_nodes(model.graph) if node.op_type in NAMES]


def program_texts(model: onnx.ModelProto) -> list[str]:
    return [node.attribute[0].s.decode() for node in elementwise_nodes(model)]


def programs_mean_their_bodies(model: onnx.ModelProto, *cases: Arrays, compare: Comparison = near) -> int:
    """Checks the nodes of the main graph; returns how many there are."""
    nodes = [node for node in model.graph.node if node.op_type in NAMES]
    if not nodes:
        return 0
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer if _small(tensor)}
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    wanted = list(dict.fromkeys(name for node in nodes for name in (*node.input, *node.output) if name not in stored))
    given = {value.name for value in model.graph.output}
    exposed.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted if name not in given)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(exposed.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for case in cases:
        values = {**stored, **case, **dict(zip(wanted, session.run(wanted, case), strict=True))}
        for node in nodes:
            text = node.attribute[0].s.decode()
            results = elementwise_reference.run(text, [values[name] for name in node.input])
            for name, got in zip(node.output, results, strict=True):
                compare(got, values[name], f"{node.name}: {name} of\n{text}")
    return len(nodes)


def within_ulps(ulps: int) -> Comparison:
    """A comparison of each number by itself: at most so many units in the last place apart."""

    def compare(got: np.ndarray, want: np.ndarray, what: str) -> None:
        if got.dtype.kind != "f":
            near(got, want, what)
            return
        assert (got.dtype, got.shape) == (want.dtype, want.shape), what
        with np.errstate(invalid="ignore", over="ignore"):
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            same |= np.abs(got - want) <= ulps * np.spacing(np.abs(want))
        assert same.all(), f"{got[~same]} for {want[~same]}: {what}"

    return compare


def lower_model(model: onnx.ModelProto, products: int = 0) -> Lowered:
    """All nodes of a model as one program, whatever a provider gains by it. Raises RefusedError."""
    bench = Workbench(model)
    bench.infer_shapes()
    fix_shapes(bench, [])
    bench.infer_shapes()
    lowering = Lowering(bench.opset, fixed_batch(bench), products, bench.output_ids())
    axes = {lowering.alone(node)[0] for node in bench.graph.nodes}
    assert len(axes) == 1, f"one row space was expected, not {axes}"
    return lowering.lower(axes.pop(), bench.graph.nodes, bench.graph.outputs)


def lines_of(model: onnx.ModelProto, *cases: Arrays, products: int = 0) -> list[str]:
    """The lines of `lower_model` behind the inputs, once they have given what ONNX Runtime gives for these cases."""
    lowered = lower_model(model, products)
    text = str(lowered.program)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    original = session(model)
    for case in cases:
        values = {**stored, **case}
        got = elementwise_reference.run(text, [values[tensor.name] for tensor in lowered.inputs])
        for mine, theirs in zip(got, original.run(None, case), strict=True):
            near(mine, theirs, text)
    return [line for line in text.splitlines()[2:] if not line.startswith(("input", "output"))]


def refusal_of(model: onnx.ModelProto, products: int = 0) -> str:
    """Why `lower_model` refuses."""
    with pytest.raises(RefusedError) as refused:
        lower_model(model, products)
    return str(refused.value)


def floats(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def _small(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location != onnx.TensorProto.EXTERNAL and int(np.prod(tensor.dims)) < 1 << 20


def original_answers(model: onnx.ModelProto, case: Arrays) -> list[np.ndarray] | None:
    """What the model gives in ONNX Runtime, which lacks some types of some operators: None there."""
    try:
        original = session(model)
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        return None
    answers: list[np.ndarray] = original.run(None, case)
    return answers
