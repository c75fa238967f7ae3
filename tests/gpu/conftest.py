"""Everything here needs a GPU that ONNX Runtime's CUDA provider can use; elsewhere it is skipped by name."""

from __future__ import annotations

import functools
from pathlib import Path

import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from tests.gpu import left_out
from tests.gpu.device import CHECKER


@functools.cache
def why_not() -> str:
    """Why nothing here can run; empty where it can."""
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return "this ONNX Runtime has no CUDA provider"
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "probe", [value], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CUDAExecutionProvider"])
    return "" if "CUDAExecutionProvider" in session.get_providers() else "ONNX Runtime's CUDA provider finds no GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents or not isinstance(item, pytest.Function):
            continue
        item.add_marker(pytest.mark.gpu)
        if reason := why_not():
            item.add_marker(pytest.mark.skip(reason=reason))
        if reason := left_out.why(item, CHECKER):
            item.add_marker(pytest.mark.skip(reason=reason))
