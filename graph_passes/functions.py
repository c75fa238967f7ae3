"""The dpiframe ops of a model: each distinct function body under a name of its own, from a fixed pool of names an op."""

from __future__ import annotations

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


class PoolExhausted(RuntimeError):
    """A model needs more distinct bodies of an op than the library registers names for."""


def pool_names(op: str) -> list[str]:
    return [op, *(f"{op}_{number}" for number in range(1, POOL_SIZE))]


def add_function(
    bench: Workbench, op: str, inputs: list[str], outputs: list[str], nodes: list[onnx.NodeProto], attributes: list[str]
) -> str:
    """Put a function of this body into the model, or find the equal one that is there. Returns its name.

    Raises PoolExhausted where all of the op's names are taken by other bodies.
    """
    opset = [helper.make_opsetid("", bench.opset)]
    for name in pool_names(op):
        function = helper.make_function(DOMAIN, name, inputs, outputs, nodes, opset, attributes)
        known = bench.functions.get((DOMAIN, name, ""))
        if known is None:
            bench.functions[(DOMAIN, name, "")] = function
            if all(entry.domain != DOMAIN for entry in bench.graph.import_domains):
                bench.graph.import_domains.append(helper.make_opsetid(DOMAIN, DOMAIN_VERSION))
            return name
        if known.SerializeToString(deterministic=True) == function.SerializeToString(deterministic=True):
            return name
    raise PoolExhausted(f"all {POOL_SIZE} names of {op} are taken")


def is_fused(node: gs.Node) -> bool:
    return node.domain == DOMAIN
