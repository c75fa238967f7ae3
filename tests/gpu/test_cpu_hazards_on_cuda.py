"""Every hazard of the CPU kernels again, on CUDA: the same tests, with kernels and sessions of the GPU put in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.custom_ops import (
    models,
    test_counters,
    test_lookup_alignment,
    test_lookup_bags,
    test_lookup_empty_batch,
    test_lookup_float16,
    test_lookup_out_of_range,
    test_lookup_plain,
    test_lookup_pooling,
    test_lookup_threads,
    test_session_shapes,
)
from tests.gpu import device

MODULES = [
    test_counters,
    test_lookup_alignment,
    test_lookup_bags,
    test_lookup_empty_batch,
    test_lookup_float16,
    test_lookup_out_of_range,
    test_lookup_plain,
    test_lookup_pooling,
    test_lookup_threads,
    test_session_shapes,
]
LEFT_OUT = {
    # On a GPU a bad id raises nothing: test_bad_ids.py.
    "test_error_names_the_first_bad_id_by_row_whatever_the_threads",
    "test_a_session_raises_and_names_node_source_column_and_id",
    # These make CPU sessions by themselves.
    "test_a_table_mapped_from_a_file_at_an_odd_offset",
    "test_options_made_before_any_session_have_tags_of_their_own",
    "test_sessions_of_the_same_options_share_their_counts",
    "test_registering_twice_changes_nothing",
    # What the Python interface of the CPU kernels checks.
    "test_wrong_types_shapes_and_counts_are_refused",
    "test_lists_of_other_lengths_are_refused",
    "test_an_id_outside_the_table_is_an_error_where_that_is_the_policy",
    "test_errors_in_a_session_name_the_input",
    "test_programs_that_say_something_else",
    "test_bounds_are_for_bags_alone",
    # They have a test of their own: test_bags.py.
    "test_bags_agree_with_the_reference",
    "test_weights_of_another_length_are_refused",
}


@pytest.fixture(scope="module", autouse=True)
def on_cuda() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "session", device.session)
        for module in MODULES:
            if hasattr(module, "LookupProgram"):
                patch.setattr(module, "LookupProgram", device.CudaLookupProgram)
            if hasattr(module, "session"):
                patch.setattr(module, "session", device.session)
        yield


for module in MODULES:
    hazard = module.__name__.rpartition("test_")[2]
    for name, function in list(vars(module).items()):
        if name.startswith("test_") and callable(function) and name not in LEFT_OUT:
            globals()[f"test_{hazard}_{name.removeprefix('test_')}"] = function
