"""The dpiframe ops of a model: each distinct function body under a name of its own, from a fixed pool of names an
op."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import onnx
import onnx_graphsurgeon as gs
from onnx import helper

from dpiframe.graph_passes.workbench import Workbench

DOMAIN = "dpiframe"
DOMAIN_VERSION = 1
LOOKUP = "FusedMultiGather"
ELEMENTWISE = "FusedElementwise"
GEMM = "FusedGemm"
REGION = "ParallelRegion"
POOL_SIZE = 64
"""How many names of each op the library registers: NAME, NAME_1 ... NAME_63."""
_DEFINED_BY_TYPE = {"Gelu"}
MIN_IR_VERSION = 8
"""Model-local functions came with IR version 8."""


class PoolExhaustedError(RuntimeError):
    """A model needs more distinct bodies of an op than the library registers names for."""


def pool_names(op: str) -> list[str]:
    return [op, *(f"{op}_{number}" for number in range(1, POOL_SIZE))]


_OP_OF_NAME = {name: op for op in (LOOKUP, ELEMENTWISE, GEMM, REGION) for name in pool_names(op)}


def op_of(node: gs.Node) -> str | None:
    """The op of ours that a node calls, whatever its body's number; None for another node."""
    return _OP_OF_NAME.get(node.op) if is_fused(node) else None


def count_ops(model: onnx.ModelProto) -> dict[str, int]:
    """How many nodes of each op of ours a model has, those that a ParallelRegion launches too."""
    bodies = {function.name: function.node for function in model.functions if function.domain == DOMAIN}
    counts: dict[str, int] = {}
    waiting = [*calls(model.graph.node)]
    while waiting:
        domain, name = waiting.pop(0)
        if domain != DOMAIN:
            continue
        op = _OP_OF_NAME.get(name)
        if op is not None:
            counts[op] = counts.get(op, 0) + 1
        waiting.extend(calls(bodies.get(name, ())))
    return counts


def program_fields(model: onnx.ModelProto, keyword: str) -> set[str]:
    """What lines `<keyword> <field>` hold in the programs of a model's nodes of ours, those in a region's too."""
    line = re.compile(rf"^ *{keyword} (\S+)$", re.MULTILINE)
    found: set[str] = set()
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in walk(nodes):
            if node.domain == DOMAIN:
                for attribute in node.attribute:
                    if attribute.name == "program":
                        found.update(line.findall(attribute.s.decode()))
    return found


def add_function(
    bench: Workbench, op: str, inputs: list[str], outputs: list[str], nodes: list[onnx.NodeProto], attributes: list[str]
) -> str:
    """Put a function of this body into the model, or find the equal one that is there. Returns its name.

    In the body, operators that ONNX defines by a function of their operands' types are that function: a function's
    values have no types, and onnx.reference couldn't find it.

    Raises PoolExhaustedError where all of the op's names are taken by other bodies.
    """
    nodes = [part for node in nodes for part in _spelled_out(node, bench.opset)]
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


def _spelled_out(node: onnx.NodeProto, opset: int) -> list[onnx.NodeProto]:
    """The node, or the nodes of ONNX's definition. That casts its constants to the operand's type: so it is the
    same for all types."""
    if node.domain or node.op_type not in _DEFINED_BY_TYPE:
        return [node]
    schema = onnx.defs.get_schema(node.op_type, opset)
    any_type = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None).SerializeToString()
    # which the type stubs leave out
    text = schema.get_context_dependent_function(node.SerializeToString(), [any_type])  # type: ignore[attr-defined]
    function = onnx.FunctionProto.FromString(text)
    names = dict(zip((*function.input, *function.output), (*node.input, *node.output), strict=False))
    parts = []
    for part in function.node:
        found = onnx.NodeProto()
        found.CopyFrom(part)
        for values in (found.input, found.output):
            values[:] = [names.get(name, f"{node.output[0]}_{name}") for name in values]
        parts.append(found)
    return parts


def calls(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str]]:
    """(domain, operator) of every node, those in subgraphs too."""
    return ((node.domain, node.op_type) for node in walk(nodes))


def walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Every node, those in subgraphs too."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from walk(graph.node)


def is_fused(node: gs.Node) -> bool:
    return node.domain == DOMAIN
