"""Hazard: a front end that no exporter has written yet gives other answers when it is fused."""

from __future__ import annotations

import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graph_passes.front_ends import FrontEnd, front_ends
from tests.graph_passes.harness import FP32_TOLERANCE, agree, optimize

SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@settings(max_examples=120, **SETTINGS)  # type: ignore[arg-type]
@given(front_ends(), st.sampled_from(["error", "zero", "clamp"]))
def test_any_front_end_gives_the_same_answers(made: tuple[onnx.ModelProto, FrontEnd], bad_ids: str) -> None:
    model, front_end = made
    result = optimize(model, bad_ids=bad_ids)
    # an original that can't take an empty batch is no measure
    cases = [front_end.case(batch, seed) for seed, batch in enumerate((1, 3, 17))]
    agree(model, result, *cases, tolerance=FP32_TOLERANCE, reference=False)


@settings(max_examples=30, **SETTINGS)  # type: ignore[arg-type]
@given(front_ends())
def test_any_front_end_means_the_same_to_the_reference(made: tuple[onnx.ModelProto, FrontEnd]) -> None:
    model, front_end = made
    result = optimize(model)
    agree(model, result, front_end.case(2, 0), tolerance=FP32_TOLERANCE)
    flattens = any(node.op_type == "Flatten" for node in model.graph.node)  # which it can't do to an empty batch
    agree(model, result, front_end.case(0, 0), tolerance=FP32_TOLERANCE, reference=not flattens)
