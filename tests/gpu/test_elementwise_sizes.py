"""Hazard: sizes at which a count of threads, a 32-bit number, shared memory or the kernel's parameters overflow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.custom_ops import elementwise_reference
from tests.gpu.device import whole_session
from tests.gpu.elementwise import CudaProgram, elementwise_model, feeds

NORM = """elementwise 1
rows 1
input f32 x {n}
input f32 - {n}
sum f32 1 : 0 0
const f32 {inverse}
mul f32 1 : 2 3
sub f32 {n} : 0 4
mul f32 {n} : 5 5
sum f32 1 : 6 0
mul f32 1 : 7 3
const f32 1e-5
add f32 1 : 8 9
sqrt f32 1 : 10
div f32 {n} : 5 11
mul f32 {n} : 12 1
output 13
"""
PAIRS = """elementwise 1
rows 1
input f32 x {n} {d}
view f32 {n} {n} {d} : 0 0 {d} 0 1
view f32 {n} {n} {d} : 0 0 0 {d} 1
mul f32 {n} {n} {d} : 1 2
sum f32 {n} {n} : 3 2
exp f32 {n} {n} : 4
sum f32 {n} : 5 0
output 6
output 4
"""
SOFTMAX = """elementwise 1
rows 1
input f32 x {n}
max f32 1 : 0 0
sub f32 {n} : 0 1
exp f32 {n} : 2
sum f32 1 : 3 0
div f32 {n} : 3 4
output 5
"""


def norm(n: int) -> str:
    return NORM.format(n=n, inverse=repr(float(np.float32(1 / n))))


@pytest.mark.parametrize("batch", [0, 1, 2, 3, 5, 31, 33, 255, 257, 1023, 2048, 4099, 65537])
def test_batches(batch: int) -> None:
    random = np.random.default_rng(batch)
    for n in (1, 6, 16):
        text = norm(n)
        inputs = [random.standard_normal((batch, n)).astype(np.float32), np.ones(n, np.float32)]
        elementwise_reference.compare(text, inputs, CudaProgram(text).run(inputs))


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize("n", [1000, 4096, 5003, 50_000, 1_000_000])
def test_wide_rows(n: int, compiles: bool) -> None:
    random = np.random.default_rng(n)
    text = norm(n)
    inputs = [random.standard_normal((3, n)).astype(np.float32), random.standard_normal(n).astype(np.float32)]
    elementwise_reference.compare(text, inputs, CudaProgram(text, compiles).run(inputs))


@pytest.mark.parametrize("lanes", [128, 256, 512])
@pytest.mark.parametrize("n", [10_888, 10_896, 10_908, 10_916, 10_922, 10_924])
def test_rows_that_fill_shared_memory(n: int, lanes: int) -> None:
    text = SOFTMAX.format(n=n)
    inputs = [np.random.default_rng(n).standard_normal((5, n)).astype(np.float32)]
    elementwise_reference.compare(text, inputs, CudaProgram(text, lanes=lanes).run(inputs))


@pytest.mark.parametrize(("n", "d"), [(7, 3), (27, 16), (64, 8), (120, 4)])
def test_more_results_than_shared_memory_holds(n: int, d: int) -> None:
    random = np.random.default_rng(n)
    text = PAIRS.format(n=n, d=d)
    batch = max(3, 10**5 // (n * n * d))
    inputs = [random.standard_normal((batch, n, d)).astype(np.float32) / np.float32(d)]
    for lanes in (0, 32):
        elementwise_reference.compare(text, inputs, CudaProgram(text, lanes=lanes).run(inputs))


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize("count", [450, 500, 900])
def test_more_addresses_than_parameters_hold(count: int, compiles: bool) -> None:
    random = np.random.default_rng(count)
    text = "elementwise 1\nrows 1\n" + "input f32 x 2\n" * count
    text += f"join f32 {2 * count} : 0 {' '.join(map(str, range(count)))}\noutput {count}\n"
    inputs = [random.standard_normal((37, 2)).astype(np.float32) for _ in range(count)]
    (output,) = CudaProgram(text, compiles).run(inputs)
    np.testing.assert_array_equal(output, np.concatenate(inputs, 1))


def test_many_addresses_in_a_session() -> None:
    count = 600
    random = np.random.default_rng(0)
    text = "elementwise 1\nrows 1\n" + "input f32 x 1\n" * count
    text += f"join f32 {count} : 0 {' '.join(map(str, range(count)))}\nsum f32 1 : {count} 0\noutput {count + 1}\n"
    session = whole_session(elementwise_model(text))
    for batch in (1, 700):
        inputs = [random.integers(-9, 9, (batch, 1)).astype(np.float32) for _ in range(count)]
        np.testing.assert_array_equal(session.run(None, feeds(inputs))[0], np.concatenate(inputs, 1).sum(1)[:, None])


@pytest.mark.parametrize("rows", [(3, 50), (1, 1), (0, 5), (700, 3), (2, 1000)])
def test_two_row_axes(rows: tuple[int, int]) -> None:
    """A gate over a sequence: a target a row, a mask, and weights of each position."""
    text = "elementwise 1\nrows 2\ninput f32 xx 16\ninput f32 x- 16\ninput f32 -x\ninput f32 -- 16\n"
    text += "sub f32 16 : 0 1\nmul f32 16 : 4 3\nsum f32 1 : 5 0\nsigmoid f32 1 : 6\nmul f32 1 : 7 2\n"
    text += "mul f32 16 : 0 8\noutput 9\noutput 8\n"
    random = np.random.default_rng(rows[0])
    shapes = [(*rows, 16), (rows[0], 1, 16), (1, rows[1]), (16,)]
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    for compiles in (True, False):
        elementwise_reference.compare(text, inputs, CudaProgram(text, compiles).run(inputs))
    elementwise_reference.compare(text, inputs, whole_session(elementwise_model(text)).run(None, feeds(inputs)))


@pytest.mark.parametrize("width", [1, 8, 1024])
def test_more_than_2_31_elements(width: int) -> None:
    torch = pytest.importorskip("torch")
    rows = (1 << 31) // width + 1000
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("12 GB of free device memory are needed")
    text = f"elementwise 1\nrows 1\ninput bool x {width}\ninput bool - {width}\nxor bool {width} : 0 1\noutput 2\n"
    x = torch.zeros((rows, width), dtype=torch.bool, device="cuda")
    ends = [0, 1, rows // 2, rows - 2, rows - 1]
    x[ends] = torch.rand((len(ends), width), device="cuda") < 0.5
    weight = torch.ones(width, dtype=torch.bool, device="cuda")
    y = torch.zeros_like(x)
    torch.cuda.synchronize()
    kernel = CudaProgram(text).kernel
    kernel.launch([rows], [x.data_ptr(), weight.data_ptr()], [y.data_ptr()], 0)
    torch.cuda.synchronize()
    assert bool((y[ends] == ~x[ends]).all())
    assert all(
        bool((part == ~own).all()) for part, own in zip(y.split(rows // 8 + 1), x.split(rows // 8 + 1), strict=True)
    )


def test_more_than_2_30_rows_of_two_axes() -> None:
    """They take several launches, whose rows go on where those of the one before end."""
    torch = pytest.importorskip("torch")
    lengths = [3, (1 << 29) + 1000]
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("12 GB of free device memory are needed")
    text = "elementwise 1\nrows 2\ninput bool xx\ninput bool x-\ninput bool -x\n"
    text += "xor bool : 0 1\nxor bool : 3 2\noutput 4\n"
    x = torch.zeros(lengths, dtype=torch.bool, device="cuda")
    first = torch.tensor([True, False, True], device="cuda")
    second = torch.zeros(lengths[1], dtype=torch.bool, device="cuda")
    second[::7] = True
    x[:, ::5] = True
    y = torch.zeros_like(x)
    torch.cuda.synchronize()
    inputs = [x.data_ptr(), first.data_ptr(), second.data_ptr()]
    CudaProgram(text).kernel.launch(lengths, inputs, [y.data_ptr()], 0)
    torch.cuda.synchronize()
    for row in range(lengths[0]):
        assert torch.equal(y[row], x[row] ^ second ^ first[row])
