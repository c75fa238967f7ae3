"""The passes in order, from a model to an optimized one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata

import onnx

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.cleanup import Cleanup
from dpiframe.graph_passes.elementwise.fuse import FuseElementwise
from dpiframe.graph_passes.functions import DOMAIN, MIN_IR_VERSION, is_fused
from dpiframe.graph_passes.gemm.fuse import FuseGemm
from dpiframe.graph_passes.inline import inline_lookup_functions
from dpiframe.graph_passes.lookups.fuse import FuseLookups
from dpiframe.graph_passes.lookups.interpret import count_lookups
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.streams.assign import AssignStreams
from dpiframe.graph_passes.streams.schedule import Order
from dpiframe.graph_passes.workbench import EXACT, Workbench

PASSES: tuple[type[Pass], ...] = (Canonicalize, FuseLookups, FuseGemm, FuseElementwise, AssignStreams, Cleanup)


@dataclass
class PipelineResult:
    """What the passes made of a model.

    fused: whether any dpiframe op was formed (otherwise the model is best left as it is). Node counts leave out
    Constant nodes.
    """

    model: onnx.ModelProto
    reports: list[PassReport] = field(default_factory=list)
    lookups_before: int = 0
    lookups_fused: int = 0
    nodes_before: int = 0
    nodes_after: int = 0
    fused: bool = False


def optimize_model(
    model: onnx.ModelProto,
    *,
    provider: str = "cpu",
    bad_ids: str = "error",
    precision: str = "fp32",
    streams: int = 0,
    launch_order: Order = "breadth",
    exact: bool = False,
    passes: Sequence[type[Pass]] | None = None,
    on_pass: Callable[[str], None] | None = None,
) -> PipelineResult:
    """Run all passes over a model, whose own protobuf is not changed.

    provider: "cpu" or "cuda", the target that fusions are formed for. bad_ids: "error", "zero" or "clamp". precision:
    "fp32", "tf32" or "fp16", of products on CUDA. streams: how many at most branches run on at once on CUDA, 0 for as
    many as they are worth. launch_order: "breadth" or "depth". exact: see Workbench. passes: those to run, PASSES
    unless given. on_pass is called with each pass's name before it runs.
    """
    bench = Workbench(inline_lookup_functions(model), provider, bad_ids, precision, streams, launch_order, exact)
    already = _count_fused(bench)
    result = PipelineResult(model, nodes_before=count_nodes(bench), lookups_before=count_lookups(bench))
    for kind in PASSES if passes is None else passes:
        current = kind()
        if on_pass is not None:
            on_pass(current.name)
        result.reports.append(current(bench))
    result.fused = _count_fused(bench) > already
    result.model = _finish(bench, result.fused)
    result.nodes_after = count_nodes(bench)
    result.lookups_fused = result.lookups_before - count_lookups(bench)
    return result


def models_after_passes(
    model: onnx.ModelProto,
    *,
    provider: str = "cpu",
    bad_ids: str = "error",
    precision: str = "fp32",
    streams: int = 0,
    launch_order: Order = "breadth",
    exact: bool = False,
    passes: Sequence[type[Pass]] | None = None,
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Run the passes again, and give each one's name and the model after it: to find the first whose results differ."""
    bench = Workbench(inline_lookup_functions(model), provider, bad_ids, precision, streams, launch_order, exact)
    already = _count_fused(bench)
    for kind in PASSES if passes is None else passes:
        kind()(bench)
        yield kind.name, _finish(bench, _count_fused(bench) > already)


def count_nodes(bench: Workbench) -> int:
    """Nodes that run, in the main graph and its subgraphs."""
    return sum(node.op != "Constant" for graph in bench.graphs() for node in graph.nodes)


def _count_fused(bench: Workbench) -> int:
    return sum(is_fused(node) for graph in bench.graphs() for node in graph.nodes)


def _finish(bench: Workbench, fused: bool) -> onnx.ModelProto:
    model = bench.to_model()
    if fused:
        model.ir_version = max(model.ir_version, MIN_IR_VERSION)
        properties = {p.key: p.value for p in model.metadata_props}
        properties |= {
            f"{DOMAIN}.version": metadata.version("dpiframe"),
            f"{DOMAIN}.provider": bench.provider,
            f"{DOMAIN}.precision": bench.precision,
            f"{DOMAIN}.bad_ids": bench.bad_ids,
        }
        if bench.exact:
            properties[EXACT] = "true"
        del model.metadata_props[:]
        onnx.helper.set_model_props(model, properties)
    return model
