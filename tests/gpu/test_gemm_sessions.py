"""Hazard: a node that is right alone and wrong in a session: captured graphs, streams, threads, changing weights."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import onnxruntime as ort
import pytest

from tests.custom_ops import gemm, models
from tests.gpu.device import CHECKED, session, whole_session

CROSS = ["add vector 2", "mul matrix 3", "add matrix 4"]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("layout", ["nk", "kn"])
def test_batches(constant: bool, layout: str) -> None:
    made = whole_session(gemm.gemm_model(gemm.random_case(1, 200, 200, CROSS, layout), constant))
    for batch in (0, 1, 5, 64, 300, 2048, 7):
        case = gemm.random_case(batch, 200, 200, CROSS, layout)
        # The model's vector and weight are those of the first case.
        first = gemm.random_case(1, 200, 200, CROSS, layout)
        case.operands[0] = first.operands[0]
        if constant:
            case.weight = first.weight
        (y,) = made.run(None, gemm.feeds(case, constant))
        np.testing.assert_allclose(y, case.expected(), rtol=1e-5, atol=1e-5)


def test_leading_axes() -> None:
    case = gemm.random_case(60, 70, 80, ["add vector 2"])
    expected = case.expected().reshape(3, 20, 70)
    case.a = case.a.reshape(3, 20, 80)
    (y,) = session(gemm.gemm_model(case)).run(None, gemm.feeds(case))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def mlp(batch: int, widths: list[int], random: np.random.Generator) -> tuple[models.onnx.ModelProto, list[gemm.Case]]:
    """Layers one after the other, each a FusedGemm with bias and ReLU."""
    cases, nodes, constants = [], [], {}
    for i, (k, n) in enumerate(pairwise(widths)):
        case = gemm.random_case(1, n, k, ["add vector 2", "relu"], seed=int(random.integers(1000)))
        constants |= {f"w{i}": case.weight, f"b{i}": case.operands[0]}
        node = gemm.gemm_node(case.program, [f"h{i}", f"w{i}", f"b{i}"])
        node.name, node.output[0] = f"layer{i}", f"h{i + 1}"
        nodes.append(node)
        cases.append(case)
    model = models.model_of(
        nodes,
        [models.value("h0", "float32", [batch, widths[0]])],
        [models.value(f"h{len(cases)}", "float32", [batch, widths[-1]])],
        constants,
    )
    return model, cases


def expected_of(cases: list[gemm.Case], x: np.ndarray) -> np.ndarray:
    for case in cases:
        x = gemm.Case(x, case.weight, case.steps, case.operands).expected()
    return x


@pytest.mark.parametrize("batch", [3, 64, 512, 2048])
def test_replays_of_a_graph_see_what_the_inputs_hold(batch: int) -> None:
    random = np.random.default_rng(0)
    model, cases = mlp(batch, [624, 256, 800, 256, 1], random)
    made = whole_session(model, enable_cuda_graph="1")
    binding = made.io_binding()
    x = ort.OrtValue.ortvalue_from_numpy(np.zeros((batch, 624), np.float32), "cuda", 0)
    y = ort.OrtValue.ortvalue_from_shape_and_type([batch, 1], np.float32, "cuda", 0)
    binding.bind_ortvalue_input("h0", x)
    binding.bind_ortvalue_output("h4", y)
    for _ in range(3 if CHECKED else 15):
        values = random.standard_normal((batch, 624)).astype(np.float32)
        x.update_inplace(values)
        made.run_with_iobinding(binding)
        np.testing.assert_allclose(y.numpy(), expected_of(cases, values), rtol=1e-4, atol=1e-4)


def test_many_threads_in_one_session() -> None:
    """Kernels of one session start while others still run, on streams of their own."""
    random = np.random.default_rng(1)
    model, cases = mlp(1, [624, 256, 800, 256, 40], random)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "B"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "B"
    made = whole_session(model)

    def run(seed: int) -> None:
        own = np.random.default_rng(seed)
        for _ in range(2 if CHECKED else 8):
            values = own.standard_normal((int(own.integers(1, 900)), 624)).astype(np.float32)
            np.testing.assert_allclose(made.run(None, {"h0": values})[0], expected_of(cases, values), 1e-4, 1e-4)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(16)))
