"""Random programs on random arrays: printed kernels and the interpreter agree with the numpy reference."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.custom_ops import elementwise_reference
from tests.custom_ops.elementwise_programs import Case, cases
from tests.gpu.device import CHECKED, whole_session
from tests.gpu.elementwise import CudaProgram, elementwise_model, feeds

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
TEAMS = [0, 0, 1, 2, 4, 8, 16, 32, 128, 256, 512]


def examples(count: int) -> settings:
    return settings(
        max_examples=count // 10 if CHECKED else count,
        deadline=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )


@examples(150)
@given(cases(), st.sampled_from(TEAMS), st.booleans())
def test_printed_kernels_agree(case: Case, lanes: int, odd: bool) -> None:
    outputs = CudaProgram(case.program, lanes=lanes).run(case.inputs, odd)
    elementwise_reference.compare(case.program, case.inputs, outputs)


@examples(300)
@given(cases(), st.booleans())
def test_the_interpreter_agrees(case: Case, odd: bool) -> None:
    outputs = CudaProgram(case.program, compiles=False).run(case.inputs, odd)
    elementwise_reference.compare(case.program, case.inputs, outputs)


@examples(30)
@given(cases(types=("f32",), max_lines=40))
def test_sessions_agree(case: Case) -> None:
    outputs = whole_session(elementwise_model(case.program)).run(None, feeds(case.inputs))
    elementwise_reference.compare(case.program, case.inputs, outputs)


@pytest.mark.parametrize("types", [("f16",), ("f64", "i64"), ("f32", "bool"), ("i32", "f16")])
def test_every_pair_of_types(types: tuple[str, ...]) -> None:
    @examples(15)
    @given(cases(types=types))
    def agree(case: Case) -> None:
        elementwise_reference.compare(case.program, case.inputs, CudaProgram(case.program).run(case.inputs))

    agree()
