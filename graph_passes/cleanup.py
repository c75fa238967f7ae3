"""The pass `cleanup`: drop what no output needs, and mark the file."""

from __future__ import annotations

from dpiframe.graph_passes.conditions import SOUND
from dpiframe.graph_passes.functions import DOMAIN, calls
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench


class Cleanup(Pass):
    """Remove nodes, initializers and dpiframe functions that nothing uses; put the nodes in topological order.

    Left alone: unused graph inputs (the interface stays) and functions of other domains.
    """

    name = "cleanup"
    ensures = SOUND

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        if removed := bench.tidy():
            report.changes.append(f"{removed} unused nodes are gone")
        used = {(node.domain, node.op) for graph in bench.graphs() for node in graph.nodes}
        used |= {call for function in bench.functions.values() for call in calls(function.node)}
        for key in [key for key in bench.functions if key[0] == DOMAIN and key[:2] not in used]:
            del bench.functions[key]
            report.changes.append(f"unused function {key[1]} is gone")
        return report
