"""Small models in ONNX text form, and the comparison that every rewrite has to pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import onnx
import onnx.checker
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from dpiframe import custom_ops
from dpiframe.graph_passes import pipeline
from dpiframe.graph_passes.elementwise.fuse import FuseElementwise
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.pipeline import PipelineResult, optimize_model
from dpiframe.graph_passes.streams.assign import AssignStreams

OP = "FusedMultiGather"
FP32_TOLERANCE = 1e-6
FP16_TOLERANCE = 2e-3

Arrays = dict[str, np.ndarray]


def parse(
    text: str, opset: int = 20, ir: int = 10, imports: str = "", functions: str = "", **initializers: np.ndarray
) -> onnx.ModelProto:
    """A model from `(inputs) => (outputs) { nodes }`; initializers are given as arrays."""
    header = f'<ir_version: {ir}, opset_import: ["": {opset}{imports}]>'
    model = onnx.parser.parse_model(f"{header} g {text} {functions}")
    for name, values in initializers.items():
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    return model


def table(rows: int, dim: int, dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    """A table in which every element is another number."""
    return np.random.default_rng(rows * 1000 + dim + seed).normal(size=(rows, dim)).astype(dtype)


def ids(*shape: int, high: int, dtype: type = np.int64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).integers(0, high, shape).astype(dtype)


def optimize(model: onnx.ModelProto, **options: str) -> PipelineResult:
    """The optimized model, after what holds for every model: the input is unharmed, the result valid, a second run
    in vain."""
    before = model.SerializeToString(deterministic=True)
    result = optimize_model(model, **options)  # type: ignore[arg-type]
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(result.model, full_check=True)
    same_interface(model, result.model)
    again = optimize_model(result.model, **options)  # type: ignore[arg-type]
    if result.fused:
        assert not again.fused
        assert again.model.SerializeToString(deterministic=True) == result.model.SerializeToString(deterministic=True)
    return result


def fuse_all(model: onnx.ModelProto) -> PipelineResult:
    """Optimized under a policy for ids outside their tables: then a lookup is fused even where that saves nothing."""
    return optimize(model, bad_ids="clamp")


@contextmanager
def without_elementwise() -> Iterator[None]:
    """Leave elementwise nodes as they are, for tests of what comes before them."""
    with _without(FuseElementwise):
        yield


@contextmanager
def without_regions() -> Iterator[None]:
    """Leave fused nodes apart, for tests of what they are."""
    with _without(AssignStreams):
        yield


@contextmanager
def _without(left_out: type[Pass]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "PASSES", tuple(kind for kind in pipeline.PASSES if kind is not left_out))
        yield


def same_interface(model: onnx.ModelProto, other: onnx.ModelProto) -> None:
    stored = {t.name for t in model.graph.initializer} if model.ir_version < 4 else set()
    assert [v for v in model.graph.input if v.name not in stored] == list(other.graph.input)
    assert list(model.graph.output) == list(other.graph.output)


def agree(
    model: onnx.ModelProto, result: PipelineResult, *cases: Arrays, tolerance: float = 0.0, reference: bool = True
) -> None:
    """Original and result give the same answers, within a tolerance as `same` takes it."""
    original = session(model)
    runners = list(ways_to_run(result, reference))
    for case in cases:
        compare(runners, case, original.run(None, case), tolerance)


def gives(
    result: PipelineResult, case: Arrays, *wanted: np.ndarray, tolerance: float = 0.0, reference: bool = True
) -> None:
    """The result gives these answers."""
    compare(list(ways_to_run(result, reference)), case, list(wanted), tolerance)


def ways_to_run(result: PipelineResult, reference: bool) -> Iterator[tuple[str, Callable[[Arrays], list[np.ndarray]]]]:
    """ONNX Runtime without the library, which inlines the body, and with it; and onnx.reference, which runs the
    body."""
    for name, library in (("inlined", False), ("library", True)):
        runner = session(result.model, library)
        yield name, lambda case, runner=runner: runner.run(None, case)
    if reference:
        yield "onnx.reference", lambda case: _reference(result.model, case)


def compare(
    runners: list[tuple[str, Callable[[Arrays], list[np.ndarray]]]],
    case: Arrays,
    wanted: list[np.ndarray],
    tolerance: float,
) -> None:
    for name, run in runners:
        for index, (got, want) in enumerate(zip(run(case), wanted, strict=True)):
            same(got, want, tolerance, f"{name}, output {index}")


def _reference(model: onnx.ModelProto, case: Arrays) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model).run(None, case)


def same(got: np.ndarray, want: np.ndarray, tolerance: float, what: str) -> None:
    """|a - b| <= tolerance * max(1, max|b|); with a tolerance of 0, equal bits."""
    assert got.shape == want.shape, what
    assert got.dtype == want.dtype, what
    if tolerance == 0 or got.dtype.kind != "f":
        assert got.tobytes() == want.tobytes(), f"{what}: {got} != {want}"
        return
    if got.size:
        finite = np.isfinite(want)
        np.testing.assert_array_equal(np.isfinite(got), finite, what)
        bound = tolerance * max(1.0, float(np.abs(want[finite]).max(initial=0)))
        assert np.abs(got[finite].astype(np.float64) - want[finite]).max(initial=0) <= bound, what


def session(model: onnx.ModelProto, library: bool = False) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(str(custom_ops.library_path()))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def fails(model: onnx.ModelProto, case: Arrays, library: bool = False) -> bool:
    """Whether running the model raises."""
    runner = session(model, library)
    try:
        runner.run(None, case)
    except Exception:  # ONNX Runtime's errors have no common base that it exports
        return True
    return False


def op_types(model: onnx.ModelProto | onnx.GraphProto) -> list[str]:
    graph = model.graph if isinstance(model, onnx.ModelProto) else model
    return [node.op_type for node in graph.node]


def fused_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The dpiframe nodes of a graph and its subgraphs."""
    for node in graph.node:
        if node.domain == "dpiframe":
            yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from fused_nodes(attribute.g)


def programs(result: PipelineResult) -> list[str]:
    return [node.attribute[0].s.decode() for node in fused_nodes(result.model.graph)]


def blocks(result: PipelineResult, index: int = 0) -> list[str]:
    """A program's lines without its header."""
    lines = programs(result)[index].splitlines()
    return [line for line in lines if line.split()[0] in ("copy", "row", "pool", "term", "bag")]


def refusals(result: PipelineResult) -> dict[str, str]:
    return {refusal.node: refusal.reason for report in result.reports for refusal in report.refusals}


def changes(result: PipelineResult) -> str:
    return "\n".join(line for report in result.reports for line in report.changes)


def batches(
    make: dict[str, tuple[tuple[int | str, ...], int]], sizes: Iterable[int] = (0, 1, 5), **arrays: np.ndarray
) -> list[Arrays]:
    """Cases for several batch sizes: name -> (shape with "b" for the batch, number of rows)."""
    cases = []
    for size in sizes:
        case = {}
        for seed, (name, (shape, high)) in enumerate(make.items()):
            case[name] = ids(*(size if d == "b" else int(d) for d in shape), high=high, seed=seed)
        cases.append({**case, **arrays})
    return cases
