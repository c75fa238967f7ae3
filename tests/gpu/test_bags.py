"""Bags on a GPU: bit for bit what the reference gives, however many lanes share one; in graph mode anew each time."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.custom_ops import models, reference
from tests.custom_ops.test_lookup_bags import Case, bag_program, cases
from tests.gpu.device import CHECKED, CudaLookupProgram, whole_session

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


@settings(max_examples=20 if CHECKED else 150, deadline=None, phases=PHASES)
@given(cases(), st.booleans())
def test_kernels_agree_with_the_reference(case: Case, odd: bool) -> None:
    expected = reference.run(case.program, case.sources, case.tables)
    program = CudaLookupProgram(case.program, odd)
    (actual,) = program.run(case.sources, case.tables)
    assert reference.same_bits(actual, expected.outputs[0])
    assert program.bad_id_counts == expected.counts


@settings(max_examples=5 if CHECKED else 25, deadline=None, phases=PHASES)
@given(cases())
def test_sessions_agree_with_the_reference(case: Case) -> None:
    expected = reference.run(case.program, case.sources, case.tables)
    sources = {f"s{i}": source for i, source in enumerate(case.sources)}
    spec = {name: (str(source.dtype), [None] * source.ndim) for name, source in sources.items()}
    tables = {f"t{i}": table for i, table in enumerate(case.tables)}
    session = whole_session(models.lookup_model(case.program, spec, tables))
    assert reference.same_bits(session.run(None, sources)[0], expected.outputs[0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rows", [1, 7, 100, 3000])
@pytest.mark.parametrize("mean_length", [3, 40, 1500])
def test_chunks_of_16_bytes_by_one_lane_and_by_several(dtype: str, rows: int, mean_length: int) -> None:
    """Bags of very different lengths side by side in a warp, weights, padding and ids outside the table."""
    if rows * mean_length > 200_000:
        pytest.skip("the reference takes too long")
    random = np.random.default_rng(rows)
    length = rows * mean_length
    ids = random.integers(-45, 45, length)
    offsets = np.sort(random.integers(0, length + 1, rows))
    weights = random.standard_normal(length).astype(np.float32)
    table = random.standard_normal((40, 72)).astype(dtype)
    program = (
        "lookup 1\nrows 1\nbad zero\nsource 1 row\nsource * list\nsource * list\ntable 40 72\noutput 168\n"
        "bag 0 0 64 sum 0 0 1:* 8 col 2 * 0:0 none\nbag 0 64 72 mean 0 0 1:* 0 one 0:0 7\n"
        "bag 0 136 32 max -inf 0 1:*%50+-5 0 one 0:0 none\n"
    )
    lookup = CudaLookupProgram(program)
    expected = reference.run(program, [offsets, ids, weights], [table])
    assert reference.same_bits(lookup.run([offsets, ids, weights], [table])[0], expected.outputs[0])
    assert lookup.bad_id_counts == expected.counts


def test_many_ids_of_a_bag_are_counted_exactly() -> None:
    """A float that grows by 1 stops at 2^24."""
    count = (1 << 24) + 2
    ids = np.zeros(count, np.int32)
    table = np.full((1, 4), 1, np.float32)
    (output,) = CudaLookupProgram(bag_program("mean", table=(1, 4))).run([np.zeros(1, np.int64), ids], [table])
    # the sum itself stops there
    np.testing.assert_array_equal(output, np.full((1, 4), np.float32(1 << 24) / np.float32(count)))


def test_replays_see_new_ids_new_offsets_and_new_weights() -> None:
    random = np.random.default_rng(0)
    rows, length = 64, 500
    table = random.standard_normal((100, 8)).astype(np.float32)
    program = bag_program(weight="col 2 *", weights=True, bad="zero", table=(100, 8))
    sources = {"offsets": ("int64", [rows]), "ids": ("int64", [length]), "weights": ("float32", [length])}
    session = whole_session(models.lookup_model(program, sources, {"table": table}), enable_cuda_graph="1")
    binding = session.io_binding()
    values = {}
    for name, (dtype, shape) in sources.items():
        values[name] = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, dtype), "cuda", 0)
        binding.bind_ortvalue_input(name, values[name])
    output = ort.OrtValue.ortvalue_from_shape_and_type([rows, 8], np.float32, "cuda", 0)
    binding.bind_ortvalue_output("y0", output)
    for _ in range(5 if CHECKED else 50):
        feeds = {
            "offsets": np.sort(random.integers(0, length + 1, rows)),
            "ids": random.integers(-2, 103, length),
            "weights": random.standard_normal(length).astype(np.float32),
        }
        for name, array in feeds.items():
            values[name].update_inplace(array)
        session.run_with_iobinding(binding)
        expected = reference.run(program, list(feeds.values()), [table]).outputs[0]
        assert reference.same_bits(output.numpy(), expected)
