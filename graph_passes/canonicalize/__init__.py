"""Bring what different exporters write for the same thing into one form, so that the fusing passes have one form to match."""

from __future__ import annotations

from dpiframe.graph_passes.canonicalize.branches import decide_branches
from dpiframe.graph_passes.canonicalize.common_nodes import share_common_nodes
from dpiframe.graph_passes.canonicalize.constants import constant_nodes, fold_constants
from dpiframe.graph_passes.canonicalize.shape_plumbing import fix_shapes
from dpiframe.graph_passes.canonicalize.simplify import remove_no_ops
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench

__all__ = ["Canonicalize"]

_STEPS = (constant_nodes, fold_constants, fix_shapes, decide_branches, remove_no_ops, share_common_nodes)
_MAX_ROUNDS = 12


class Canonicalize(Pass):
    """One form for what the two exporters and the libraries write differently.

    1. Constant nodes become initializers; nodes of small constants are folded. Tables and external data are never read.
    2. Shapes computed at run time become constants, as far as only one dimension is unknown.
    3. An If whose condition follows is replaced by its branch.
    4. Casts, views, Expand, Slice, Dropout, `x + 0`, `x * 1` without effect go.
    5. Repeated nodes are computed once.

    Left alone: nodes that give a graph's output, random operators, and whatever would make the file grow.
    """

    name = "canonicalize"

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        for _ in range(_MAX_ROUNDS):
            bench.graph.toposort(recurse_functions=False)
            bench.infer_shapes()
            changed = [step(bench, report.changes) for step in _STEPS]
            bench.graph.cleanup(recurse_functions=False)
            if not any(changed):
                break
        return report
