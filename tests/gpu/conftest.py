"""Everything here needs a GPU that ONNX Runtime's CUDA provider can use; elsewhere it is skipped by name."""

from __future__ import annotations

import functools
from pathlib import Path

import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from tests.gpu.device import CHECKED, CHECKER

# Tests that compute-sanitizer leaves out, by file and function, each with its reason.
LEFT_OUT_UNDER_A_CHECKER = {
    "test_elementwise_cache.py": {
        "test_a_folder_that_cannot_be_written_to": "a checker hands child processes no empty variables",
        "test_without_nvrtc_nodes_run_and_it_is_said_once": "a checker hands child processes no empty variables",
    },
    "test_cpu_hazards_on_cuda.py": {
        "test_lookup_threads_sessions_come_and_go_on_many_threads": "threads that make sessions wait without end",
    },
    "test_elementwise_sessions.py": {
        "test_many_sessions_at_once": "threads that make sessions wait without end",
    },
    "test_regions.py": {
        "test_threads_on_one_stream": "memcheck doesn't end, whether with graphs or without",
        "test_other_threads_may_wait_for_the_device": "too slow to meet",
        "test_what_repeats_is_one_launch": "a checker takes CUPTI for itself",
    },
    "test_tuning.py": {
        "test_what_is_fastest_here": "a checker sees nothing of a child process, and times mean nothing under it",
    },
}

# What racecheck leaves out too.
NOT_IN_ORDER = "a place that is filled again is reported, in whose order nothing is wrong: docs/gemm.md, What has run"
LEFT_OUT_BY_RACECHECK = {
    "test_elementwise_sizes.py": {
        "test_more_than_2_31_elements": "takes minutes, for kernels that smaller tests run too",
    },
    "test_gemm_many_tiles.py": {
        "test_more_tiles_than_multiprocessors": "takes ten minutes, and does little that the others don't",
        "test_ten_tiles_of_one_chunk": NOT_IN_ORDER,
        # These have as many tiles of one chunk; it was not seen what is reported of them.
        "test_runs_of_columns": NOT_IN_ORDER,
        "test_special_values_in_the_first_a_middle_and_the_last_tile": NOT_IN_ORDER,
        "test_one_column_whose_weight_no_parts_can_stand_for": NOT_IN_ORDER,
        "test_a_vector_that_the_kernel_before_writes": NOT_IN_ORDER,
    },
}


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
        left_out = LEFT_OUT_UNDER_A_CHECKER.get(item.path.name, {})
        if CHECKER == "racecheck":
            left_out = left_out | LEFT_OUT_BY_RACECHECK.get(item.path.name, {})
        for name in left_out:
            if not hasattr(item.module, name):
                raise pytest.UsageError(f"{item.path.name} has no {name}, which {__file__} leaves out")
        if CHECKED and (reason := left_out.get(item.originalname, "")):
            item.add_marker(pytest.mark.skip(reason=reason))
