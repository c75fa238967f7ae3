"""Hazard: work on several streams that starts too early, is joined too late, or shares memory at the wrong time."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import onnxruntime as ort
import pytest

pytest.importorskip("onnx_graphsurgeon")

from tests.custom_ops.regions import WIDTH, feed, many_lookups, regional, rows, towers, two_modules
from tests.gpu.captured import stream
from tests.gpu.device import CHECKED, DeviceArray, whole_session
from tests.graph_passes.harness import parse, session

REPLAYS = 20 if CHECKED else 1000
RUNS = 6
"""Of the same sizes and addresses: a region's first run is in order, the second direct, others may be its own graph."""


@pytest.fixture(autouse=True, params=[True, False], ids=["own graphs", "direct"])
def own_graphs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    on: bool = request.param
    if on:
        monkeypatch.delenv("DPIFRAME_REGION_GRAPHS", raising=False)
    else:
        monkeypatch.setenv("DPIFRAME_REGION_GRAPHS", "0")
    return on


def close(got: list[np.ndarray], want: list[np.ndarray], what: str, bound: float = 2e-6) -> None:
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape, what
        assert np.abs(one - other).max(initial=0) <= bound * max(1, np.abs(other).max(initial=0)), what


def on_gpu(model: onnx.ModelProto, streams: int = 4, **options: str) -> ort.InferenceSession:
    result = regional(model, streams)
    assert any(node.op_type == "ParallelRegion" for node in result.graph.node)
    return whole_session(result, **options)


@pytest.mark.parametrize("streams", [2, 3, 4])
def test_every_fused_op_in_one_region(streams: int) -> None:
    model = two_modules()
    original, runner = session(model), on_gpu(model, streams)
    for count in (1, 7, 0, 64, 3, 1000, 0, 2048):
        for seed in range(RUNS):
            case = feed(count, count + seed)
            close(runner.run(None, case), original.run(None, case), f"{count} rows, run {seed}")


def test_more_addresses_than_parameters() -> None:
    """They are written by kernels of their own, in front of the lookup's."""
    model = many_lookups(450)
    original, runner = session(model), on_gpu(model)
    for count in (1, 64):
        for seed in range(RUNS):
            draw = np.random.default_rng(seed)
            case = {f"i{i}": draw.integers(0, 9, count) for i in range(450)}
            close(runner.run(None, case), original.run(None, case), f"{count} rows, run {seed}")


@pytest.mark.parametrize("layer", range(3))
@pytest.mark.parametrize("tower", range(3))
def test_a_slow_layer_anywhere(tower: int, layer: int) -> None:
    model = towers(3, 3, slow=(tower, layer))
    original, runner = session(model), on_gpu(model)
    case = rows(512 if CHECKED else 4096)
    want = original.run(None, case)
    for _ in range(RUNS):
        close(runner.run(None, case), want, "slow layer")


def test_batches_of_changing_size() -> None:
    model = towers(4, 3)
    original, runner = session(model), on_gpu(model)
    for seed, count in enumerate([5, 300, 1, 0, 300, 17, 2048, 5, 4097, 1] * (1 if CHECKED else 3)):
        close(runner.run(None, rows(count, seed)), original.run(None, rows(count, seed)), f"{count} rows")


def test_memory_full_of_others_values() -> None:
    """Between the calls of one session, another one fills the arena's blocks with NaN."""
    model = towers(4, 3)
    original, runner = session(model), on_gpu(model)
    dirty = whole_session(parse("(float[b,1024] x) => (float[b,1024] y) { a = Exp(x) c = Sub(a, a) y = Neg(c) }"))
    case = rows(1024)
    want = original.run(None, case)
    for _ in range(RUNS):
        dirty.run(None, {"x": np.full((4096, 1024), np.inf, np.float32)})
        close(runner.run(None, case), want, "after NaN")


@pytest.mark.parametrize("streams", [1, 2, 3])
def test_wide_products_that_share_memory_for_their_parts(streams: int) -> None:
    """As much as their rows, of one product of a stream after the other."""
    model = towers(3, 4, width=1024)
    original, runner = session(model), on_gpu(model, streams)
    cases = [rows(1024, seed, 1024) for seed in range(2)]
    wanted = [original.run(None, case) for case in cases]
    for turn in range(2 * RUNS):
        close(runner.run(None, cases[turn % 2]), wanted[turn % 2], f"turn {turn}", 1e-5)


def test_a_limit_that_holds_the_work_of_few_products() -> None:
    """Eight products of 8192 rows: 32 MiB of rows, 34 MiB of parts each."""
    model = towers(1, 8, width=1024)
    limits = {"gpu_mem_limit": str(512 << 20), "arena_extend_strategy": "kSameAsRequested"}
    runner = on_gpu(model, **limits)
    case = rows(8192, width=1024)
    few = {"x": case["x"][:50]}
    want = session(model).run(None, few)
    for _ in range(RUNS):
        close([runner.run(None, case)[0][:50]], want, "within the limit", 1e-5)


def test_addresses_that_suit_single_values_only() -> None:
    """Other kernels than the first call's take turns with them."""
    model, count = two_modules(), 100
    runner, original = on_gpu(model), session(model)
    places = []
    for offset in (0, 4, 8):
        given = {name: DeviceArray(array, array.itemsize * offset // 4) for name, array in feed(count).items()}
        taken = {
            name: DeviceArray(np.zeros((count, width), np.float32), offset) for name, width in (("y", 1), ("s", 4))
        }
        binding = runner.io_binding()
        for name, array in given.items():
            binding.bind_input(name, "cuda", 0, array.dtype, array.shape, array.address)
        for name, array in taken.items():
            binding.bind_output(name, "cuda", 0, array.dtype, array.shape, array.address)
        places.append((binding, given, taken))
    want = original.run(None, feed(count))
    for turn in range(4 * RUNS):
        binding, _, taken = places[turn % 3]
        runner.run_with_iobinding(binding)
        close([array.read() for array in taken.values()], want, f"turn {turn}")


def test_sixteen_threads() -> None:
    model = towers(3, 3, slow=(1, 1))
    runner = on_gpu(model)
    counts = [1, 3, 8, 64, 100, 128, 200, 256, 300, 512, 700, 1000, 1024, 1500, 2000, 2048]
    wanted = {count: session(model).run(None, rows(count, count)) for count in counts}
    wrong: list[str] = []

    def work(count: int) -> None:
        try:
            for _ in range(2 if CHECKED else 30):
                close(runner.run(None, rows(count, count)), wanted[count], f"{count} rows")
        except BaseException as error:  # a thread's failure must reach the test
            wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(count,)) for count in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_on_one_stream() -> None:
    """One makes a graph while others put their work on the side streams of the same stream."""
    model = towers(3, 3)
    counts = [1, 7, 64, 100, 256, 300, 512, 1000]
    wanted = {count: session(model).run(None, rows(count, count)) for count in counts}
    wrong: list[str] = []

    def work(runner: ort.InferenceSession, count: int) -> None:
        try:
            given = ort.OrtValue.ortvalue_from_numpy(rows(count, count)["x"], "cuda", 0)
            empty = np.full((count, 3 * WIDTH), np.nan, np.float32)
            for _ in range(20):  # outputs at new addresses, each with a graph
                taken = ort.OrtValue.ortvalue_from_numpy(empty, "cuda", 0)
                binding = runner.io_binding()
                binding.bind_ortvalue_input("x", given)
                binding.bind_ortvalue_output("y", taken)
                for _ in range(RUNS):
                    taken.update_inplace(empty)
                    runner.run_with_iobinding(binding)
                    close([taken.numpy()], wanted[count], f"{count} rows")
        except BaseException as error:  # a thread's failure must reach the test
            wrong.append(str(error))

    with stream() as on:
        runner = on_gpu(model, user_compute_stream=str(on))
        threads = [threading.Thread(target=work, args=(runner, count)) for count in counts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        del runner
    assert not wrong


@pytest.mark.parametrize("slow", [None, (1, 1)])
def test_inputs_and_outputs_anywhere(slow: tuple[int, int] | None) -> None:
    """More addresses than graphs are kept for, and each often enough to have had one."""
    model, count = towers(3, 3, slow), 100
    runner = on_gpu(model)
    cases = [rows(count, seed) for seed in range(3)]
    wanted = [session(model).run(None, case) for case in cases]
    places = 5 if CHECKED else 50
    given = [ort.OrtValue.ortvalue_from_numpy(cases[0]["x"], "cuda", 0) for _ in range(places)]
    empty = np.full((count, 3 * WIDTH), np.nan, np.float32)
    taken = [ort.OrtValue.ortvalue_from_numpy(empty, "cuda", 0) for _ in range(places)]
    for turn in range(2 * RUNS):
        for place in range(places):
            binding = runner.io_binding()
            given[place].update_inplace(cases[(turn + place) % 3]["x"])
            taken[place].update_inplace(empty)
            binding.bind_ortvalue_input("x", given[place])
            binding.bind_ortvalue_output("y", taken[(place + turn // 4) % places])
            runner.run_with_iobinding(binding)
            got = taken[(place + turn // 4) % places].numpy()
            close([got], wanted[(turn + place) % 3], f"turn {turn}, place {place}")


def test_many_sizes_many_times() -> None:
    model = towers(2, 3)
    original, runner = session(model), on_gpu(model)
    counts = [*range(1, 6 if CHECKED else 60), 0, 700]
    cases = {count: rows(count, count) for count in counts}
    wanted = {count: original.run(None, case) for count, case in cases.items()}
    for turn in range(RUNS):
        for count in counts[:: 1 - 2 * (turn % 2)]:
            close(runner.run(None, cases[count]), wanted[count], f"{count} rows, turn {turn}")


def test_other_threads_may_wait_for_the_device() -> None:
    torch = pytest.importorskip("torch")
    runners = [on_gpu(towers(3, 3)) for _ in range(20)]
    given = ort.OrtValue.ortvalue_from_numpy(rows(64)["x"], "cuda", 0)
    empty = np.zeros((64, 3 * WIDTH), np.float32)
    places = [ort.OrtValue.ortvalue_from_numpy(empty, "cuda", 0) for _ in range(10)]
    errors: list[str] = []
    done = threading.Event()

    def wait() -> None:
        while not done.is_set():
            try:
                torch.cuda.synchronize()
            except RuntimeError as error:
                errors.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        for runner in runners:
            binding = runner.io_binding()
            binding.bind_ortvalue_input("x", given)
            for place in places:  # each with a graph
                binding.bind_ortvalue_output("y", place)
                for _ in range(RUNS):
                    runner.run_with_iobinding(binding)
    finally:
        done.set()
        waiting.join()
    assert not errors


def test_what_repeats_is_one_launch(own_graphs: bool) -> None:
    torch = pytest.importorskip("torch")
    runner = on_gpu(towers(3, 3))
    binding = runner.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(rows(64)["x"], "cuda", 0))
    binding.bind_ortvalue_output(
        "y", ort.OrtValue.ortvalue_from_numpy(np.zeros((64, 3 * WIDTH), np.float32), "cuda", 0)
    )
    for _ in range(RUNS):
        runner.run_with_iobinding(binding)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(10):
            runner.run_with_iobinding(binding)
    launches = sum(event.count for event in profile.key_averages() if event.key == "cudaGraphLaunch")
    assert launches == (10 if own_graphs else 0)


@pytest.mark.parametrize("slow", [None, (0, 0), (2, 2)])
def test_replays_of_a_captured_graph(slow: tuple[int, int] | None) -> None:
    model = towers(3, 3, slow)
    runner = on_gpu(model, enable_cuda_graph="1")
    original = session(model)
    count = 256
    given = ort.OrtValue.ortvalue_from_numpy(rows(count)["x"], "cuda", 0)
    taken = ort.OrtValue.ortvalue_from_numpy(np.zeros((count, 3 * WIDTH), np.float32), "cuda", 0)
    binding = runner.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("y", taken)
    for replay in range(REPLAYS):
        case = rows(count, replay % 7)
        given.update_inplace(case["x"])
        runner.run_with_iobinding(binding)
        if replay < 14 or replay % 50 == 0:
            close([taken.numpy()], original.run(None, case), f"replay {replay}")


def test_a_graph_of_every_fused_op() -> None:
    model = two_modules()
    runner = on_gpu(model, enable_cuda_graph="1")
    original = session(model)
    values = {name: ort.OrtValue.ortvalue_from_numpy(array, "cuda", 0) for name, array in feed(64).items()}
    outputs = {
        name: ort.OrtValue.ortvalue_from_numpy(np.zeros((64, width), np.float32), "cuda", 0)
        for name, width in (("y", 1), ("s", 4))
    }
    binding = runner.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value)
    for replay in range(20):
        case = feed(64, replay)
        for name, array in case.items():
            values[name].update_inplace(array)
        runner.run_with_iobinding(binding)
        close([value.numpy() for value in outputs.values()], original.run(None, case), f"replay {replay}")
