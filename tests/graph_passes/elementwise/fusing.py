"""What the tests of FuseElementwise share: models that are fused and compared, programs' lines, cases."""

from __future__ import annotations

import numpy as np
import onnx

from dpiframe.graph_passes.pipeline import PipelineResult
from tests.graph_passes.elementwise.programs import floats, program_texts, programs_mean_their_bodies
from tests.graph_passes.harness import Arrays, agree, optimize

ONE, TWO = np.array([1]), np.array([2])
TOLERANCE = 1e-6


def fused(model: onnx.ModelProto, *cases: Arrays, provider: str = "cuda", reference: bool = True) -> PipelineResult:
    """The optimized model, once it has given the original's answers: by the kernel, by the body, in onnx.reference."""
    result = optimize(model, provider=provider)
    agree(model, result, *cases, tolerance=TOLERANCE, reference=reference)
    programs_mean_their_bodies(result.model, *cases)
    return result


def lines(result: PipelineResult, index: int = 0) -> list[str]:
    """A program behind its header."""
    return program_texts(result.model)[index].splitlines()[2:]


def batches(*sizes: int, name: str = "x") -> list[Arrays]:
    return [{name: floats(batch, *sizes)} for batch in (0, 1, 5)]
