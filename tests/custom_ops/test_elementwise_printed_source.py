"""Printed kernels without a GPU: nvcc compiles them, and run on the CPU they agree with the numpy reference."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dpiframe.custom_ops.elementwise_operators import ANY
from tests.custom_ops import elementwise_reference
from tests.custom_ops.elementwise_programs import Case, Generator, cases, numbers
from tests.custom_ops.printed_kernels import CpuKernel
from tests.custom_ops.test_elementwise_schedule import CROSS, INTERACTION, SECOND_ORDER, SOFTMAX, kernels

TEAMS = [0, 0, 1, 2, 4, 8, 16, 32, 128, 256, 512]
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def check(case: Case, folder: Path, lanes: int, vectors: bool = True) -> None:
    kernel = CpuKernel(kernels, case.program, folder, lanes, vectors)
    outputs = kernel.run(case.inputs)
    elementwise_reference.compare(case.program, case.inputs, outputs)
    for other in (kernel.run(case.inputs, backwards=True), kernel.run(case.inputs, most_rows=7)):
        assert [output.tobytes() for output in outputs] == [output.tobytes() for output in other]


def test_random_programs(tmp_path: Path) -> None:
    @settings(max_examples=30, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
    @given(cases(), st.sampled_from(TEAMS), st.booleans())
    def agree(case: Case, lanes: int, vectors: bool) -> None:
        check(case, tmp_path, lanes, vectors)

    agree()


# Found by random programs: a join whose vectors straddle its parts, kept in memory; a view backwards, whose constant
# may not be added last; a sum over axes of one element, of a value that lanes keep.
@pytest.mark.parametrize(("seed", "lanes"), [(888996, 4), (9036, 128), (10000000, 2)])
def test_programs_that_failed(seed: int, lanes: int, tmp_path: Path) -> None:
    check(Generator(seed).case(), tmp_path, lanes)


@pytest.mark.parametrize("lanes", [0, 1, 4, 32, 128])
@pytest.mark.parametrize("text", [SECOND_ORDER, SOFTMAX, CROSS, INTERACTION, SOFTMAX.replace("48", "9000")])
def test_parts_of_models(text: str, lanes: int, tmp_path: Path) -> None:
    random = np.random.default_rng(lanes)
    inputs = []
    for line in text.splitlines():
        if line.startswith("input"):
            rows = (33,) if line.split()[2] == "x" else ()
            inputs.append(random.standard_normal((*rows, *map(int, line.split()[3:]))).astype(np.float32))
    for vectors in (True, False):
        check(Case(text, inputs), tmp_path, lanes, vectors)


@pytest.mark.parametrize("inner", [2, 3, 4])
@pytest.mark.parametrize("lanes", [0, 4, 8, 16, 32, 128])
def test_short_sums_of_products_with_a_value_that_lanes_keep(lanes: int, inner: int, tmp_path: Path) -> None:
    """Such a sum is a loop of its reader's own, in which the places are those of its own elements."""
    text = (
        f"elementwise 1\nrows 1\ninput f32 x 64\ninput f32 - 64 {inner}\nsum f32 : 0 0\nsub f32 64 : 0 2\n"
        "mul f32 64 : 3 3\nsum f32 : 4 0\ndiv f32 64 : 3 5\nview f32 64 1 : 3 0 1 1\n"
        f"mul f32 64 {inner} : 7 1\nsum f32 64 : 8 1\nadd f32 64 : 6 9\noutput 10\n"
    )
    random = np.random.default_rng(inner)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in ((9, 64), (64, inner))]
    assert kernels.elementwise_schedule(text, lanes)["homes"][3] == "lane"
    check(Case(text, inputs), tmp_path, lanes)


def test_single_elements_by_the_number_of_a_run(tmp_path: Path) -> None:
    """Of a value as large as the output, which a loop reads at the number of a run, not at its elements."""
    text = "elementwise 1\nrows 1\ninput f32 x 8\nview f32 2 2 4 : 0 0 0 1 0\nsum f32 2 4 : 1 0\noutput 2\n"
    check(Case(text, [np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32)]), tmp_path, 0)


@pytest.mark.parametrize("count", [490, 500])
def test_more_addresses_than_parameters_hold(count: int, tmp_path: Path) -> None:
    text = "elementwise 1\nrows 1\n" + "input f32 x 2\n" * count
    text += f"join f32 {2 * count} : 0 {' '.join(map(str, range(count)))}\noutput {count}\n"
    source = kernels.print_elementwise(text)
    assert ("const Arguments* table" in source) == (count >= 500)
    random = np.random.default_rng(0)
    check(Case(text, [random.standard_normal((3, 2)).astype(np.float32) for _ in range(count)]), tmp_path, 0)


def test_vectors_only_where_addresses_may_suit_them() -> None:
    aligned = kernels.print_elementwise(CROSS, 32, True)
    assert "ReadInput<4>(in0" in aligned
    assert "ReadInput<4>(in" not in kernels.print_elementwise(CROSS, 32, False)


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_quotients_are_right_to_the_last_bit(kind: str, tmp_path: Path) -> None:
    """Divided several at once, of which some may be zero, huge, tiny, infinite or not a number."""
    text = f"elementwise 1\nrows 1\ninput {kind} x 16\ninput {kind} x 16\ndiv {kind} 16 : 0 1\noutput 2\n"
    rng = np.random.default_rng(0)
    x, y = (numbers(rng, kind, (400, 16), special=True) for _ in range(2))
    x[:100], y[:100] = (numbers(rng, kind, (100, 16), special=False) for _ in range(2))
    check(Case(text, [x, y]), tmp_path, 0)
    assert "DivideAll<" in kernels.print_elementwise(text)


def test_loads_stand_in_front() -> None:
    """Those of late operands too, so that all wait together."""
    text = "elementwise 1\nrows 1\ninput f32 x 8\ninput f32 - 8\ntanh f32 8 : 0\nmul f32 8 : 2 1\noutput 3\n"
    body = kernels.print_elementwise(text).split('extern "C"')[1]
    assert body.index("ReadInput<4>(in1") < body.index("OpTanh")


def test_what_the_next_pass_reads_is_on_its_way_while_lanes_add_up() -> None:
    text = (
        "elementwise 1\nrows 1\ninput f32 x 624\ninput f32 - 624\ninput f32 - 624\nmul f32 624 : 0 1\nsum f32 1 : 3 0\n"
        "mul f32 624 : 0 4\nadd f32 624 : 5 0\nmul f32 624 : 6 2\nsum f32 1 : 7 0\nmul f32 624 : 0 8\noutput 9\n"
    )
    body = kernels.print_elementwise(text, 32).split('extern "C"')[1]
    assert body.index("ReadInput<4>(in2") < body.index("AcrossLanes")


@pytest.mark.parametrize("text", [CROSS, "elementwise 1\nrows 1\ninput f32 x 8\nneg f32 8 : 0\noutput 1\n"])
def test_nothing_is_read_before_earlier_kernels_are_done(text: str) -> None:
    """Nor through the cache for what nothing writes while a kernel runs."""
    source = kernels.print_elementwise(text)
    body = source.split('extern "C"')[1]
    waits = body.index("WaitForEarlierKernels();")
    assert all(waits < body.index(access) for access in ("ReadInput<", "Write("))
    assert "__ldg" not in source


def test_small_sigmoids_keep_their_digits(tmp_path: Path) -> None:
    text = "elementwise 1\nrows 1\ninput f32 x 8\nsigmoid f32 8 : 0\noutput 1\n"
    x = np.append(np.linspace(-120, 120, 8000), [np.nan, np.inf, -np.inf, 0, -0.0, 3e38, -3e38, 1e-40])
    check(Case(text, [x.astype(np.float32).reshape(-1, 8)]), tmp_path, 0)


def test_runs_of_whole_rows_are_read_without_a_division() -> None:
    text = "elementwise 1\nrows 1\ninput f32 x 24\ninput f32 - 24\nadd f32 24 : 0 1\noutput 2\n"
    body = kernels.print_elementwise(text).split('extern "C"')[1]
    assert "ReadInput<4>(all_in0 + static_cast<unsigned long long>(n) * 4u)" in body
    assert "ReadInput<4>(in1 + u * 4u)" in body
    assert "Write(all_out0 + static_cast<unsigned long long>(n) * 4u" in body


def test_no_branch_stands_around_the_last_round() -> None:
    """Its loads would stand in there."""
    body = kernels.print_elementwise(CROSS, 32).split('extern "C"')[1]
    assert "lane + 128u < 156u ? MultiplyAdd(" in body
    assert "if (lane + 128u < 156u)" not in body


def sources() -> Iterator[str]:
    """All types and operators, and programs of each kind of schedule."""
    texts = [SECOND_ORDER, SOFTMAX, CROSS, INTERACTION]
    for number, kinds in enumerate([ANY, ANY, ("f16",), ("f64", "i64"), ("i32", "bool")]):
        texts.append(Generator(number, kinds, 60).case().program)
    for number, text in enumerate(texts):
        yield kernels.print_elementwise(text, 0 if number % 2 else 32)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nvcc_compiles_them(tmp_path: Path) -> None:
    for number, text in enumerate(sources()):
        source = tmp_path / f"kernel{number}.cu"
        source.write_text(text)
        command = [
            "nvcc",
            "-std=c++17",
            "-arch=sm_90",
            "--fmad=false",
            "-cubin",
            "-o",
            str(tmp_path / "out"),
            str(source),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_nvrtc_compiles_them() -> None:
    """For the capability that is asked for, or as PTX for one that is newer than the compiler."""
    try:
        kernels.compile_source("", 90)
    except RuntimeError as error:
        if "there is no NVRTC" in str(error):
            pytest.skip(str(error))
    for source in sources():
        assert kernels.compile_source(source, 90).startswith(b"\x7fELF")
    assert b".target" in kernels.compile_source(kernels.print_elementwise(CROSS), 999)
    with pytest.raises(RuntimeError, match="expected"):
        kernels.compile_source("int x", 90)


def test_operators_are_spelled_as_the_table_says() -> None:
    from dpiframe.custom_ops.elementwise_operators import OPERATORS

    for operator in OPERATORS:
        kind = operator.types[0]
        operands = "1 0 0" if operator.name == "where" else "0 0 0"[: 2 * operator.arity - 1]
        text = f"elementwise 1\nrows 1\ninput {kind} x 3\ninput bool x 3\n"
        text += f"{operator.name} {'bool' if operator.gives_bool else kind} 3 : {operands}\noutput 2\n"
        assert f"return ({operator.code});" in kernels.print_elementwise(text)
