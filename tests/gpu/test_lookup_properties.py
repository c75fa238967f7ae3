"""Random programs on random arrays: the CUDA kernels agree bit for bit with the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.custom_ops import models, reference
from tests.custom_ops.test_lookup_properties import Case, cases
from tests.gpu.device import CHECKED, CudaLookupProgram, whole_session

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


@settings(max_examples=20 if CHECKED else 100, deadline=None, phases=PHASES)
@given(cases(), st.booleans(), st.integers(1, 3))
def test_kernels_agree_with_the_reference(case: Case, odd: bool, threads: int) -> None:
    expected = reference.run(case.program, case.sources, case.tables)
    program = CudaLookupProgram(case.program, odd)
    for actual, wanted in zip(program.run(case.sources, case.tables, threads), expected.outputs, strict=True):
        assert reference.same_bits(actual, wanted)
    assert program.bad_id_counts == expected.counts


@settings(max_examples=5 if CHECKED else 25, deadline=None, phases=PHASES)
@given(cases())
def test_sessions_agree_with_the_reference(case: Case) -> None:
    expected = reference.run(case.program, case.sources, case.tables)
    sources = {f"s{i}": source for i, source in enumerate(case.sources)}
    tables = {f"t{i}": table for i, table in enumerate(case.tables)}
    spec = {name: (str(source.dtype), [None] * source.ndim) for name, source in sources.items()}
    session = whole_session(models.lookup_model(case.program, spec, tables, outputs=len(expected.outputs)))
    for actual, wanted in zip(session.run(None, sources), expected.outputs, strict=True):
        assert reference.same_bits(actual, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32, 300])
def test_16_byte_chunks_of_every_block(dtype: str, lanes: int) -> None:
    """Rows, parts of rows, copies and pools whose places all suit 16 bytes, with more and more rows."""
    random = np.random.default_rng(lanes)
    program = (
        "lookup 1\nrows 1\nbad zero\nsource 40 row\nsource * row\nsource 24 row\ntable 50 64\ntable 50 32\noutput 232\n"
        "row 0 0 64 0 0:0 0\nrow 0 64 16 0 0:1 8\ncopy 0 80 24 2 0\nrow 0 104 32 1 0:2+-1 0\n"
        "pool 0 136 32 sum 35 0\n"
        + "".join(f"term 1 0:{i} 0 one\n" for i in range(3, 38))
        + "pool 0 168 64 mean 1 1e-8\nterm 0 1:* 0 ne 1:* 7\n"
    )
    sources = [
        random.integers(-60, 60, (3 * lanes, 40)),
        random.integers(-50, 50, (3 * lanes, 17)),
        random.standard_normal((3 * lanes, 24)).astype(dtype),
    ]
    tables = [random.standard_normal((50, 64)).astype(dtype), random.standard_normal((50, 32)).astype(dtype)]
    expected = reference.run(program, sources, tables)
    for odd in (False, True):
        lookup = CudaLookupProgram(program, odd)
        assert reference.same_bits(lookup.run(sources, tables)[0], expected.outputs[0])
        assert lookup.bad_id_counts == expected.counts


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("padding", [0.0, -2.5, np.nan, np.inf])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 9, 50])
def test_padding_rows_count_as_the_standard_nodes_count_them(dtype: str, padding: float, length: int) -> None:
    """Rows of finite numbers need not be read; NaN and infinity must come through, also from one element of many."""
    random = np.random.default_rng(length)
    table = random.standard_normal((40, 24)).astype(dtype)
    table[5, 3], table[5, 20] = padding, -0.0
    program = "lookup 1\nrows 1\nbad zero\nsource * row\ntable 40 24\noutput 69\n"
    program += "pool 0 0 24 sum 1 0\nterm 0 0:* 0 ne 0:* 5\npool 0 24 24 mean 1 1e-8\nterm 0 0:* 0 ne 0:* 5\n"
    program += "pool 0 48 16 max 1 1e4\nterm 0 0:* 8 ne 0:* 5\npool 0 64 5 sum 1 0\nterm 0 0:* 19 ne 0:* -35\n"
    ids = np.where(random.random((300, length)) < 0.4, 5, random.integers(-41, 41, (300, length)))
    expected = reference.run(program, [ids], [table])
    for odd in (False, True):
        lookup = CudaLookupProgram(program, odd)
        assert reference.same_bits(lookup.run([ids], [table])[0], expected.outputs[0])
        assert lookup.bad_id_counts == expected.counts
