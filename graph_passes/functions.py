"""The dpiframe ops of a model: each distinct function body under a name of its own, from a fixed pool of names an
op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
import onnx_graphsurgeon as gs
from onnx import helper

from dpiframe.graph_passes.workbench import Workbench

DOMAIN = "dpiframe"
DOMAIN_VERSION = 1
POOL_SIZE = 64
"""How many names of each op the library registers: NAME, NAME_1 ... NAME_63."""
MIN_IR_VERSION = 8
"""Model-local functions came with IR version 8."""


class PoolExhaustedError(RuntimeError):
    """A model needs more distinct bodies of an op than the library registers names for."""


def pool_names(op: str) -> list[str]:
    return [op, *(f"{op}_{number}" for number in range(1, POOL_SIZE))]


def add_function(
    bench: Workbench, op: str, inputs: list[str], outputs: list[str], nodes: list[onnx.NodeProto], attributes: list[str]
) -> str:
    """Put a function of this body into the model, or find the equal one that is there. Returns its name.

    Raises PoolExhaustedError where all of the op's names are taken by other bodies.
    """
    opset = [helper.make_opsetid("", bench.opset)]
    if any(node.domain == DOMAIN for node in nodes):
        opset.append(helper.make_opsetid(DOMAIN, DOMAIN_VERSION))
    function = helper.make_function(DOMAIN, op, inputs, outputs, nodes, opset, attributes)
    # an overload is a body under the same name, too
    taken = {key[1] for key in bench.functions if key[0] == DOMAIN}
    for name in pool_names(op):
        function.name = name
        if name not in taken:
            bench.functions[(DOMAIN, name, "")] = function
            bench.opset_import.setdefault(DOMAIN, DOMAIN_VERSION)
            return name
        known = bench.functions.get((DOMAIN, name, ""))
        if known == function:
            return name
    raise PoolExhaustedError(f"all {POOL_SIZE} names of {op} are taken")


def calls(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str]]:
    """(domain, operator) of every node, those in subgraphs too."""
    for node in nodes:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from calls(graph.node)


def is_fused(node: gs.Node) -> bool:
    return node.domain == DOMAIN
