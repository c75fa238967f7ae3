"""Multi-hot pools: chunks in groups that don't divide them, rows by twos, ids a few at a time, padding anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from tests.custom_ops import reference
from tests.gpu.device import CudaLookupProgram

ROWS = 30  # of each table


def program_of(dims: list[int], terms: int, op: str, weight: str) -> str:
    starts = np.cumsum([0, *dims])
    text = f"lookup 1\nrows 1\nbad zero\nsource {len(dims) * terms} row\n"
    text += "".join(f"table {ROWS} {dim}\n" for dim in dims) + f"output {starts[-1]}\n"
    for i, dim in enumerate(dims):
        columns = range(i * terms, (i + 1) * terms)
        text += f"pool 0 {starts[i]} {dim} {op.split()[0]} {terms} {op.split()[1]}\n"
        text += "".join(f"term {i} 0:{column} 0 {weight.format(column)}\n" for column in columns)
    return text


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 5, 6, 10, 11])
@pytest.mark.parametrize("dims", [[4], [64], [68], [12, 64, 16], [128, 4, 40, 72]])
@pytest.mark.parametrize("op", ["sum 0", "mean 0.25", "max 3"])
def test_chunks_terms_and_rules(terms: int, dims: list[int], op: str) -> None:
    """With padding, of which some rows hold nothing else, and without."""
    random = np.random.default_rng(terms)
    tables = [random.standard_normal((ROWS, dim)).astype(np.float32) for dim in dims]
    ids = random.integers(-ROWS - 1, ROWS + 1, (23, len(dims) * terms))
    ids[random.random(ids.shape) < 0.3] = 7
    ids[5:8] = 7
    for weight in ("one", "ne 0:{} 7"):
        program = program_of(dims, terms, op, weight)
        with np.errstate(invalid="ignore"):
            expected = reference.run(program, [ids], tables)
        for threads in (0, 1):
            lookup = CudaLookupProgram(program)
            assert reference.same_bits(lookup.run([ids], tables, threads)[0], expected.outputs[0])
            assert lookup.bad_id_counts == expected.counts


@pytest.mark.parametrize("terms", [2, 7])
@pytest.mark.parametrize("batch", [1, 2, 3, 4097, 20_001])
def test_batches(terms: int, batch: int) -> None:
    """So many rows that a thread takes two, and an odd one is left."""
    random = np.random.default_rng(batch)
    dims = [32, 20]
    tables = [random.standard_normal((ROWS, dim)).astype(np.float32) for dim in dims]
    ids = random.integers(0, ROWS, (batch, 2 * terms)).astype(np.int32)
    total = np.zeros((batch, 52), np.float32)
    for term in range(terms):
        total[:, :32] += tables[0][ids[:, term]]
        total[:, 32:] += tables[1][ids[:, terms + term]]
    (actual,) = CudaLookupProgram(program_of(dims, terms, "sum 0", "one")).run([ids], tables)
    np.testing.assert_array_equal(actual, total)
