"""The passes in order, from a model to an optimized one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Unpack

import onnx

from dpiframe.graph_passes.canonicalize import Canonicalize
from dpiframe.graph_passes.cleanup import Cleanup
from dpiframe.graph_passes.elementwise.fuse import FuseElementwise
from dpiframe.graph_passes.functions import DOMAIN, MIN_IR_VERSION, is_fused
from dpiframe.graph_passes.gemm.fuse import FuseGemm
from dpiframe.graph_passes.inline import inline_lookup_functions
from dpiframe.graph_passes.lookups.fuse import FuseLookups
from dpiframe.graph_passes.lookups.tables import count_lookups
from dpiframe.graph_passes.metadata import properties, set_properties
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.streams.assign import AssignStreams
from dpiframe.graph_passes.workbench import EXACT, LOSE_NAN, Target, Workbench

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
    passes: Sequence[type[Pass]] | None = None,
    on_pass: Callable[[str], None] = lambda name: None,
    **target: Unpack[Target],
) -> PipelineResult:
    """Run passes (PASSES unless given) over a model, whose own protobuf is not changed.

    on_pass is called with each one's name before it runs.
    """
    bench = Workbench(inline_lookup_functions(model), **target)
    already = _count_fused(bench)
    result = PipelineResult(model, nodes_before=count_nodes(bench), lookups_before=count_lookups(bench))
    for kind in PASSES if passes is None else passes:
        current = kind()
        on_pass(current.name)
        result.reports.append(current(bench))
    result.fused = _count_fused(bench) > already
    result.model = _finish(bench, result.fused)
    result.nodes_after = count_nodes(bench)
    result.lookups_fused = result.lookups_before - count_lookups(bench)
    return result


def models_after_passes(
    model: onnx.ModelProto, *, passes: Sequence[type[Pass]] | None = None, **target: Unpack[Target]
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Run the passes again, and give each one's name and the model after it: to find the first whose results differ."""
    bench = Workbench(inline_lookup_functions(model), **target)
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
        entries = properties(model) | {
            f"{DOMAIN}.version": metadata.version("dpiframe"),
            f"{DOMAIN}.provider": bench.provider,
            f"{DOMAIN}.precision": bench.precision,
            f"{DOMAIN}.bad_ids": bench.bad_ids,
        }
        if bench.exact:
            entries[EXACT] = "true"
        if bench.lose_nan:
            entries[LOSE_NAN] = "true"
        set_properties(model, entries)
    return model
