"""Tests that compute-sanitizer leaves out, by file and function or as a whole file, each with its reason."""

from __future__ import annotations

import pytest

UNDER_ANY: dict[str, str | dict[str, str]] = {
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

# Racecheck sees the shared memory of one launch at a time.
ORDER_OF_LAUNCHES = "is of the order of launches, whose kernels other tests run"
UNDER_RACECHECK: dict[str, str | dict[str, str]] = {
    "test_bags.py": {
        "test_many_ids_of_a_bag_are_counted_exactly": "is a bag of 2^24 ids, which one block fills, for minutes",
    },
    "test_captured_branches.py": ORDER_OF_LAUNCHES,
    "test_cuda_graph.py": ORDER_OF_LAUNCHES,
    "test_elementwise_order.py": ORDER_OF_LAUNCHES,
    "test_elementwise_sessions.py": {
        "test_between_slow_kernels": ORDER_OF_LAUNCHES,
        "test_many_threads_in_one_session": ORDER_OF_LAUNCHES,
        "test_replays_see_what_the_inputs_hold": ORDER_OF_LAUNCHES,
    },
    "test_elementwise_sizes.py": {
        "test_more_than_2_31_elements": "takes minutes, for kernels that smaller tests run too",
    },
    "test_gemm_kernels.py": {
        "test_sizes_of_models": "takes minutes, for kernels that smaller tests run too",
    },
    "test_gemm_many_tiles.py": {
        "test_more_tiles_than_multiprocessors": "takes ten minutes, and does little that the others don't",
    },
    "test_gemm_sessions.py": {
        "test_many_threads_in_one_session": ORDER_OF_LAUNCHES,
        "test_replays_of_a_graph_see_what_the_inputs_hold": ORDER_OF_LAUNCHES,
    },
    "test_regions.py": ORDER_OF_LAUNCHES,
    "test_stream_order.py": ORDER_OF_LAUNCHES,
    "test_uploads.py": ORDER_OF_LAUNCHES,
}


def why(item: pytest.Function, checker: str) -> str:
    """Why a test is left out under a tool of compute-sanitizer; empty where it isn't, as without a tool.

    Raises:
        pytest.UsageError: A test that is listed isn't there.
    """
    file = item.path.name
    for tool, lists in ((checker, UNDER_ANY), ("racecheck", UNDER_RACECHECK)):
        listed = lists.get(file, {})
        if isinstance(listed, str):
            reason = listed
        else:
            for name in listed:
                if not hasattr(item.module, name):
                    raise pytest.UsageError(f"{file} has no {name}, which {__file__} leaves out")
            reason = listed.get(item.originalname or "", "")
        if reason and checker == tool != "":
            return reason
    return ""
