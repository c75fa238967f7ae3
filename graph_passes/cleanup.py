"""The pass `cleanup`: drop what no output needs, and mark the file."""

from __future__ import annotations

from collections import defaultdict

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
        used = _called(bench)
        for key in [key for key in bench.functions if key[0] == DOMAIN and key[:2] not in used]:
            del bench.functions[key]
            report.changes.append(f"unused function {key[1]} is gone")
        return report


def _called(bench: Workbench) -> set[tuple[str | None, str]]:
    """(domain, operator) of what nodes call, and of what the bodies of that call in turn; others' functions may all be
    called."""
    bodies: dict[tuple[str | None, str], list[tuple[str, str]]] = defaultdict(list)
    for (domain, name, _), function in bench.functions.items():
        bodies[domain, name].extend(calls(function.node))
    waiting = [(node.domain, node.op) for graph in bench.graphs() for node in graph.nodes]
    waiting += [key for key in bodies if key[0] != DOMAIN]
    called: set[tuple[str | None, str]] = set()
    while waiting:
        call = waiting.pop()
        if call not in called:
            called.add(call)
            waiting += bodies.get(call, [])
    return called
