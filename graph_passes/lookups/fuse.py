"""The pass `fuse_lookups`: embedding lookups, their id plumbing and their joins become FusedMultiGather nodes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_graphsurgeon as gs
from onnx import helper

from dpiframe.graph_passes.canonicalize.shape_values import Dim
from dpiframe.graph_passes.functions import DOMAIN, PoolExhausted, add_function
from dpiframe.graph_passes.lookups.assemble import Assembler, Assembly
from dpiframe.graph_passes.lookups.body import MIN_OPSET, lookup_body
from dpiframe.graph_passes.lookups.interpret import TABLE_TYPES, Interpreter, is_lookup
from dpiframe.graph_passes.lookups.symbols import POSITION_BITS, Pooled, TableRow, Value
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench, node_label

OP = "FusedMultiGather"
GroupKey = tuple[tuple[Dim, ...], int, str]


class FuseLookups(Pass):
    """Any number of lookups as one node (the paper's multi-table lookup, Section IV-C).

    1. A lookup is a Gather on axis 0 of a constant 2-D float table (P1), of any dim, shared or not (P22, P34).
    2. Its ids come from separate inputs (P4), columns of a matrix of integers or floats (P9, P27), through casts, views,
       slices, splits, picks, transposes, joins, and with offsets, factors, quotients and remainders (P10, P38).
    3. What follows is taken in: views and joins on any axis (P7, P16), dense columns in the same join, several joins of the
       same rows (P14), repeated lookups (P37), masked sum, mean and max pooling (P15), the sum of a wide part (P5).
    4. Lookups of the same batch axis share one node, unless one's ids are computed from another's rows.

    Left alone: lookups with constant ids, tables of other types, rows that a node repeats (Expand), products of rows, and sums
    of rows that are needed themselves anyway.
    """

    name = "fuse_lookups"

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        for graph in bench.graphs():
            lookups = [node for node in graph.nodes if is_lookup(node, bench)]
            _refuse_unusual_tables(graph, report)
            if not lookups:
                continue
            if bench.opset < MIN_OPSET:
                for node in lookups:
                    report.refuse(node_label(node), f"opset {bench.opset} is older than {MIN_OPSET}: convert the model first")
                continue
            _fuse_graph(graph, bench, lookups, report)
        return report


def _fuse_graph(graph: gs.Graph, bench: Workbench, lookups: list[gs.Node], report: PassReport) -> None:
    interpreter, demanded = _interpret(graph, bench)
    groups: dict[GroupKey, list[gs.Tensor]] = {}
    for tensor in demanded:
        value = interpreter.values[id(tensor)]
        assert value is not None
        if value.axes != tuple(range(len(value.axes))):
            report.refuse(tensor.name, "the batch axis isn't the first")
            continue
        key = (value.dims, interpreter.level[id(tensor)], str(_table_type(interpreter, value)))
        groups.setdefault(key, []).append(tensor)
    for tensors in groups.values():
        try:
            _replace(graph, bench, interpreter, tensors, report)
        except PoolExhausted as error:
            report.refuse(tensors[0].name, str(error))
    graph.cleanup(recurse_functions=False)
    graph.toposort(recurse_functions=False)
    for node in graph.nodes:
        if is_lookup(node, bench) and any(node is lookup for lookup in lookups):
            report.refuse(node_label(node), _why_left(node))


def _interpret(graph: gs.Graph, bench: Workbench) -> tuple[Interpreter, list[gs.Tensor]]:
    """Symbolic values and the tensors to materialise, once no sum repeats lookups whose rows are needed anyway."""
    excluded: set[int] = set()
    while True:
        interpreter = Interpreter(graph, bench, excluded).run()
        demanded = _demanded(graph, interpreter)
        again = _sums_of_needed_rows(graph, interpreter, demanded) - excluded
        if not again:
            return interpreter, demanded
        excluded |= again


def _demanded(graph: gs.Graph, interpreter: Interpreter) -> list[gs.Tensor]:
    """Tensors with table rows that something other than a taken-in node reads, in order."""
    outputs = {id(t) for t in graph.outputs}
    taken = {id(node) for node in graph.nodes if node.outputs and id(node.outputs[0]) in interpreter.hot}
    found = []
    for node in graph.nodes:
        for tensor in node.outputs:
            if id(tensor) in interpreter.hot:
                if id(tensor) in outputs or any(id(reader) not in taken for reader in tensor.outputs):
                    found.append(tensor)
    return found


def _sums_of_needed_rows(graph: gs.Graph, interpreter: Interpreter, demanded: list[gs.Tensor]) -> set[int]:
    """Nodes that sum or average plain rows which are materialised anyway: reading those again is not worth a second lookup."""
    needed: set[int] = set()
    for tensor in demanded:
        value = interpreter.values[id(tensor)]
        assert value is not None
        needed.update(np.unique(value.codes >> POSITION_BITS).tolist())
    rows = {interpreter.atoms[index] for index in needed if isinstance(interpreter.atoms[index], TableRow)}
    found = set()
    for node in graph.nodes:
        if node.op not in ("ReduceSum", "ReduceMean", "ReduceMax", "Add") or not node.outputs:
            continue
        value = interpreter.values.get(id(node.outputs[0])) if id(node.outputs[0]) in interpreter.hot else None
        if value is None:
            continue
        for index in np.unique(value.codes >> POSITION_BITS):
            atom = interpreter.atoms[int(index)]
            if isinstance(atom, Pooled) and any(weight is None and row in rows for row, weight in atom.terms):
                found.add(id(node))
    return found


def _table_type(interpreter: Interpreter, value: Value) -> np.dtype:
    for index in np.unique(value.codes >> POSITION_BITS):
        atom = interpreter.atoms[int(index)]
        row = atom.terms[0][0] if isinstance(atom, Pooled) else getattr(atom, "row", atom)
        if isinstance(row, TableRow):
            return np.dtype(interpreter.atoms.tables[row.table].dtype)
    raise AssertionError("a value without table rows")


def _replace(
    graph: gs.Graph, bench: Workbench, interpreter: Interpreter, tensors: list[gs.Tensor], report: PassReport
) -> None:
    first = interpreter.values[id(tensors[0])]
    assert first is not None
    assembler = Assembler(interpreter.atoms, len(first.axes), bench.bad_ids)
    mains: dict[bytes, gs.Tensor] = {}
    views: list[tuple[gs.Tensor, gs.Tensor, Value]] = []
    for tensor in tensors:
        value = interpreter.values[id(tensor)]
        assert value is not None
        flat = np.ascontiguousarray(value.codes).tobytes()
        if flat in mains:
            views.append((mains[flat], tensor, value))
        else:
            mains[flat] = tensor
            assembler.add_output(value)
    assembly = assembler.result
    name = _function(bench, assembly)
    for tensor in tensors:
        tensor.inputs.clear()
    label = f"{OP}_{tensors[0].name}"
    node = gs.Node(
        name,
        name=label,
        attrs={"program": str(assembly.program)},
        inputs=[*assembly.sources, *assembly.tables],
        outputs=list(mains.values()),
        domain=DOMAIN,
    )
    graph.nodes.append(node)
    for main, tensor, value in views:
        # the same bytes under another shape
        shape = [0] * len(value.axes) + [int(d) for i, d in enumerate(value.codes.shape) if i not in value.axes]
        target = gs.Constant(f"{tensor.name}_shape", np.array(shape, np.int64))
        graph.nodes.append(gs.Node("Reshape", name=f"{tensor.name}_view", inputs=[main, target], outputs=[tensor]))
    counts = Counter(type(block).__name__.lower() for block in assembly.program.blocks)
    detail = ", ".join(f"{count} {kind} blocks" for kind, count in sorted(counts.items()))
    report.changes.append(
        f"{label}: {detail} from {len(assembly.tables)} tables and {len(assembly.sources)} sources into {len(mains)} outputs"
    )


def _function(bench: Workbench, assembly: Assembly) -> str:
    table_type = helper.np_dtype_to_tensor_dtype(np.dtype(assembly.tables[0].dtype))
    source_types = [helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)) for t in assembly.sources]
    body = lookup_body(assembly.program, table_type, source_types, bench.opset)
    return add_function(bench, OP, body.inputs, body.outputs, body.nodes, ["program"])


def _refuse_unusual_tables(graph: gs.Graph, report: PassReport) -> None:
    for node in graph.nodes:
        if node.op != "Gather" or node.attrs.get("axis", 0) != 0 or not isinstance(node.inputs[0], gs.Constant):
            continue
        table = node.inputs[0]
        floating = isinstance(table.dtype, int) or np.dtype(table.dtype).kind == "f"
        if table.shape is not None and len(table.shape) == 2 and floating and table.dtype not in TABLE_TYPES:
            report.refuse(node_label(node), f"tables of type {table.dtype} aren't supported")


def _why_left(node: gs.Node) -> str:
    ids = node.inputs[1]
    if isinstance(ids, gs.Constant):
        return "its ids are constant"
    if ids.shape is None:
        return "the shape of its ids is unknown"
    return f"ids of shape {list(ids.shape)}: which axis is the batch is unclear"
