"""Hazards of fused elementwise nodes in sessions: captured graphs, many threads, addresses that suit no vectors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper

from dpiframe.graph_passes.elementwise.program import parse_program
from tests.custom_ops import elementwise_reference, models
from tests.gpu.device import CHECKED, whole_session
from tests.gpu.elementwise import elementwise_model, feeds
from tests.gpu.test_elementwise_sizes import PAIRS, norm

JOIN = "elementwise 1\nrows 1\n" + "input f32 x 1\n" * 600
JOIN += f"join f32 600 : 0 {' '.join(map(str, range(600)))}\noutput 600\n"


@pytest.mark.parametrize("text", [norm(624), PAIRS.format(n=27, d=16), PAIRS.format(n=120, d=1), JOIN])
def test_replays_see_what_the_inputs_hold(text: str) -> None:
    """Also with global memory for values, and with more addresses than the kernel's parameters take."""
    batch = 9
    random = np.random.default_rng(0)
    model = elementwise_model(text, [batch])
    session = whole_session(model, enable_cuda_graph="1")
    shapes = [[*([batch] if "x" in value.mask else []), *value.sizes] for value in parse_program(text).inputs]
    binding = session.io_binding()
    values = [ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32), "cuda", 0) for shape in shapes]
    for i, value in enumerate(values):
        binding.bind_ortvalue_input(f"x{i}", value)
    inputs = [random.standard_normal(shape).astype(np.float32) / np.float32(8) for shape in shapes]
    expected = elementwise_reference.run(text, inputs)
    outputs = [ort.OrtValue.ortvalue_from_shape_and_type(y.shape, np.float32, "cuda", 0) for y in expected]
    for i, output in enumerate(outputs):
        binding.bind_ortvalue_output(f"y{i}", output)
    for _ in range(4 if CHECKED else 10):
        inputs = [random.standard_normal(shape).astype(np.float32) / np.float32(8) for shape in shapes]
        for value, array in zip(values, inputs, strict=True):
            value.update_inplace(array)
        session.run_with_iobinding(binding)
        elementwise_reference.compare(text, inputs, [output.numpy() for output in outputs])


@pytest.mark.parametrize("text", [norm(64), PAIRS.format(n=9, d=8)])
def test_many_threads_in_one_session(text: str) -> None:
    session = whole_session(elementwise_model(text))
    shape = parse_program(text).inputs[0].sizes

    def run(seed: int) -> None:
        own = np.random.default_rng(seed)
        for _ in range(5):
            batch = int(own.integers(1, 200))
            inputs = [own.standard_normal((batch, *shape)).astype(np.float32) / np.float32(8)]
            inputs += [own.standard_normal(shape).astype(np.float32)] if text == norm(64) else []
            elementwise_reference.compare(text, inputs, session.run(None, feeds(inputs)))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(16)))


def test_many_sessions_at_once() -> None:
    """Equal nodes share a kernel; their compilations and first runs may come in any order."""
    text = norm(72)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal((9, 72)).astype(np.float32), random.standard_normal(72).astype(np.float32)]

    def run(_: int) -> None:
        outputs = whole_session(elementwise_model(text)).run(None, feeds(inputs))
        elementwise_reference.compare(text, inputs, outputs)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(16)))


def test_between_slow_kernels() -> None:
    """On another stream than its neighbours it would read what they have not written yet."""
    size, slow = 2048, 20
    random = np.random.default_rng(0)
    order = random.permutation(size)
    permutation = np.zeros((size, size), np.float32)
    permutation[np.arange(size), order] = 1
    text = "elementwise 1\nrows 1\ninput f32 x 16\nadd f32 16 : 0 0\noutput 1\n"
    nodes = [helper.make_node("MatMul", ["p", "x" if i == 0 else f"a{i - 1}"], [f"a{i}"]) for i in range(slow)]
    nodes.append(
        helper.make_node("FusedElementwise", [f"a{slow - 1}"], ["b"], name="f", domain="dpiframe", program=text)
    )
    nodes += [helper.make_node("MatMul", ["p", "b" if i == 0 else f"c{i - 1}"], [f"c{i}"]) for i in range(slow)]
    model = models.model_of(
        nodes,
        [models.value("x", "float32", [size, 16]), models.value("p", "float32", [size, size])],
        [models.value(f"c{slow - 1}", "float32", [size, 16])],
        {},
    )
    session = whole_session(model)
    moved = np.arange(size)
    for _ in range(2 * slow):
        moved = moved[order]
    for _ in range(5):
        x = random.integers(-100, 100, (size, 16)).astype(np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x, "p": permutation})[0], 2 * x[moved])


def test_slices_bound_as_inputs_and_outputs() -> None:
    """Their addresses suit single elements only."""
    torch = pytest.importorskip("torch")
    text = norm(64)
    session = whole_session(elementwise_model(text))
    room = torch.randn(1 + 10 * 64, device="cuda")
    x, y = room[1:].view(10, 64), torch.zeros(1 + 10 * 64, device="cuda")[1:].view(10, 64)
    weight = torch.randn(65, device="cuda")[1:]
    torch.cuda.synchronize()
    binding = session.io_binding()
    for name, value in (("x0", x), ("x1", weight)):
        binding.bind_input(name, "cuda", 0, np.float32, list(value.shape), value.data_ptr())
    binding.bind_output("y0", "cuda", 0, np.float32, list(y.shape), y.data_ptr())
    session.run_with_iobinding(binding)
    inputs = [x.cpu().numpy(), weight.cpu().numpy()]
    elementwise_reference.compare(text, inputs, [y.cpu().numpy()])
