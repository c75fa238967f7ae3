"""Properties of any graph of supported operators: fused, it gives what it gave before."""

from __future__ import annotations

import os

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graph_passes.elementwise.programs import (
    Comparison,
    near,
    original_answers,
    programs_mean_their_bodies,
    within_ulps,
)
from tests.graph_passes.elementwise.random_graphs import RandomGraph, random_graphs
from tests.graph_passes.harness import optimize, session

CASES = int(os.environ.get("DPIFRAME_CASES", "600"))
PROVIDERS = st.sampled_from(["cuda", "cuda", "cpu"])
"""Groups are formed for CUDA wherever they save a launch; what is formed must run on a CPU all the same."""
LENGTHS = st.fixed_dictionaries({"b": st.sampled_from([0, 1, 2, 5]), "l": st.sampled_from([1, 3])})
quickly = settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))


@given(random_graphs(exact=True), PROVIDERS, LENGTHS, st.integers(0, 99))
@quickly
def test_graphs_of_exact_operators(
    made: tuple[onnx.ModelProto, RandomGraph], provider: str, lengths: dict[str, int], seed: int
) -> None:
    _check(made, provider, lengths, seed)


@pytest.mark.parametrize("special", [False, True])
def test_arithmetic_to_the_last_places(special: bool) -> None:
    """Numbers of many sizes, each compared by itself; with NaN and infinities among them."""

    @given(random_graphs(exact=True, special=special, many_sizes=True), PROVIDERS, LENGTHS, st.integers(0, 99))
    @quickly
    def agree(made: tuple[onnx.ModelProto, RandomGraph], provider: str, lengths: dict[str, int], seed: int) -> None:
        _check(made, provider, lengths, seed, within_ulps(4))

    agree()


@given(random_graphs(exact=False), PROVIDERS, LENGTHS, st.integers(0, 99))
@quickly
def test_graphs_with_transcendental_operators_and_products(
    made: tuple[onnx.ModelProto, RandomGraph], provider: str, lengths: dict[str, int], seed: int
) -> None:
    _check(made, provider, lengths, seed)


@given(random_graphs(exact=True, special=True), PROVIDERS, LENGTHS, st.integers(0, 99))
@quickly
def test_graphs_of_nan_and_infinities(
    made: tuple[onnx.ModelProto, RandomGraph], provider: str, lengths: dict[str, int], seed: int
) -> None:
    _check(made, provider, lengths, seed)


def _check(
    made: tuple[onnx.ModelProto, RandomGraph],
    provider: str,
    lengths: dict[str, int],
    seed: int,
    compare: Comparison = near,
) -> None:
    model, graph = made
    result = optimize(model, provider=provider)
    case = graph.case(lengths, seed)
    wanted = original_answers(model, case)
    if wanted is None:
        return
    for library in (False, True):
        for got, want in zip(session(result.model, library).run(None, case), wanted, strict=True):
            compare(got, want, f"library {library}: {onnx.printer.to_text(result.model)}")
    if lengths["b"]:
        programs_mean_their_bodies(result.model, case, compare=compare)
