"""The pass `fuse_lookups`: embedding lookups, their id plumbing and their joins become FusedMultiGather nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
from onnx import helper

from dpiframe.graph_passes.canonicalize.bag_loops import NotABagError, find_bag
from dpiframe.graph_passes.canonicalize.shape_values import Dim
from dpiframe.graph_passes.conditions import LEGIBLE, SOUND
from dpiframe.graph_passes.functions import DOMAIN, LOOKUP, PoolExhaustedError, add_function
from dpiframe.graph_passes.graphs import Node, node_label, replace_uses, set_producer, tidy, type_name, with_inner
from dpiframe.graph_passes.lookups.assemble import Assembler, Assembly
from dpiframe.graph_passes.lookups.body import MIN_OPSET, lookup_body
from dpiframe.graph_passes.lookups.interpret import Interpreter
from dpiframe.graph_passes.lookups.joins import join_rows
from dpiframe.graph_passes.lookups.program import STAR
from dpiframe.graph_passes.lookups.symbols import MAX_ELEMENTS, Atom, Bagged, Pooled, TableRow, Value, source_value
from dpiframe.graph_passes.lookups.tables import TABLE_TYPES, gathers_rows, is_lookup, is_table, quantized_table
from dpiframe.graph_passes.pass_base import Pass
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench

REPEATED_ROWS = {"cpu": 24, "cuda": 512}
"""Rows a sample up to which a pool is computed again for another join rather than once by a node of its own. Measured:
a node costs 5 us on a CPU and 22 us on a GPU, a row that is pooled again 18 ns on a CPU core."""
DYNAMIC_ROWS = 32
"""Rows that a sequence of dynamic length is taken to have."""
GroupKey = tuple[tuple[Dim, ...], int, str]


class FuseLookups(Pass):
    """Any number of lookups as one node (the paper's multi-table lookup, Section IV-C).

    1. A lookup is a Gather on axis 0 of a constant 2-D float table, of any dim, shared or not.
    2. Its ids come from separate inputs, columns of a matrix of integers or floats, through casts, views, slices,
       splits, picks, transposes, joins, and with offsets, factors, quotients and remainders.
    3. What follows is taken in: views and joins on any axis, dense columns in the same join, several joins of the same
       rows, repeated lookups, masked sum, mean and max pooling, the sum of a wide part. Of a join that holds something
       else, too, the rows are taken in.
    4. A loop over bags of any length is taken in whole, with what makes its ids; see canonicalize.bag_loops.
    5. Lookups of the same batch axis share one node, unless one's ids are computed from another's rows.

    Left alone: loops over rows that pool no bags, lookups with constant ids, tables of other types, rows that a node
    repeats (Expand), products of rows, sums of rows that are needed themselves anyway, and lookups with which nothing
    is joined.
    """

    name = "fuse_lookups"
    requires = LEGIBLE
    ensures = SOUND

    def run(self, bench: Workbench) -> PassReport:
        report = PassReport(self.name)
        loops = _misunderstood_loops(bench)
        graphs = bench.graphs()
        alive = {id(graph) for graph in graphs}
        for graph in graphs:
            if id(graph) not in alive:
                # the loop that it was the body of has been taken in
                continue
            lookups = [node for node in graph.nodes if is_lookup(node, bench)]
            _refuse_unusual_tables(graph, bench, report)
            if not lookups and not any(node.op == "Loop" for node in graph.nodes):
                continue
            if bench.opset < MIN_OPSET:
                for node in lookups:
                    report.refuse(
                        node_label(node), f"opset {bench.opset} is older than {MIN_OPSET}: convert the model first"
                    )
                continue
            if _fuse_graph(graph, bench, loops, report):
                alive = {id(left) for left in bench.graphs()}
        return report


def _fuse_graph(graph: gs.Graph, bench: Workbench, loops: dict[int, str], report: PassReport) -> bool:
    """Whether loops may have been taken in."""
    interpreter, demanded = _interpret(graph, bench)
    groups: dict[GroupKey, list[gs.Tensor]] = {}
    for tensor in demanded:
        value = interpreter.value(tensor)
        key = (value.dims, interpreter.level[id(tensor)], str(_table_type(interpreter, value)))
        groups.setdefault(key, []).append(tensor)
    exhausted = ""
    for tensors in groups.values():
        if _saves_nothing(bench, interpreter, tensors):
            for tensor in tensors:
                node = tensor.inputs[0]
                reason = next((loops[id(n)] for n in (node, *tensor.outputs) if id(n) in loops), "")
                report.refuse(node_label(node), reason or "there is nothing to join it with: it is as fast on its own")
            continue
        try:
            _replace(graph, bench, interpreter, tensors, report)
        except PoolExhaustedError as error:
            exhausted = str(error)
    tidy(graph)
    refused = {refusal.node for refusal in report.refusals}
    for node in graph.nodes:
        if is_lookup(node, bench) and node_label(node) not in refused:
            understood = id(node.outputs[0]) in interpreter.hot
            report.refuse(node_label(node), exhausted if understood else _why_left(node))
    return bool(interpreter.bags)


def _saves_nothing(bench: Workbench, interpreter: Interpreter, tensors: list[gs.Tensor]) -> bool:
    """The fused node would do what the Gather nodes do, and nothing else. Only on a GPU is one launch for several
    a gain."""
    if bench.bad_ids != "error" or (bench.provider == "cuda" and len(tensors) > 1):
        return False
    return all(_is_bare_lookup(bench, interpreter, tensor) for tensor in tensors)


def _is_bare_lookup(bench: Workbench, interpreter: Interpreter, tensor: gs.Tensor) -> bool:
    node = tensor.inputs[0]
    if not is_lookup(node, bench):
        return False
    ids = source_value(node.inputs[1], interpreter.atoms)
    # as the Gather itself takes them, without any step before it
    if ids is None:
        return False
    atoms = interpreter.atoms
    taken = {getattr(atoms[index], "id", None) for index in interpreter.value(tensor).atoms}
    return taken == {atoms[index] for index in ids.atoms}


def _interpret(graph: gs.Graph, bench: Workbench) -> tuple[Interpreter, list[gs.Tensor]]:
    """Symbolic values and the tensors to compute, once nothing that costs much is computed twice."""
    excluded: set[int] = set()
    materialized: set[int] = set()
    while True:
        interpreter = Interpreter(graph, bench, excluded, materialized).run()
        if join_rows(graph, bench, interpreter):
            continue
        demanded = _demanded(graph, interpreter)
        sums = _sums_of_needed_rows(graph, interpreter, demanded) - excluded
        pools = set() if sums else _pools_to_share(graph, interpreter, demanded) - materialized
        if not sums and not pools:
            return interpreter, demanded
        excluded |= sums
        materialized |= pools


def _demanded(graph: gs.Graph, interpreter: Interpreter) -> list[gs.Tensor]:
    """Tensors with table rows that something other than a taken-in node reads, in order."""
    outputs = {id(t) for t in graph.outputs}
    taken = set()
    for node in graph.nodes:
        wanted = [id(tensor) for tensor in node.outputs if tensor.outputs or id(tensor) in outputs]
        if wanted and interpreter.hot.issuperset(wanted):
            taken.add(id(node))
    taken |= {id(node) for bag in interpreter.bags.values() for node in with_inner([bag.loop])}
    found = []
    for node in graph.nodes:
        for tensor in node.outputs:
            if id(tensor) in interpreter.hot:
                read = any(
                    id(reader) not in taken or id(tensor) in interpreter.materialized for reader in tensor.outputs
                )
                if read or id(tensor) in outputs:
                    found.append(tensor)
    return found


def _sums_of_needed_rows(graph: gs.Graph, interpreter: Interpreter, demanded: list[gs.Tensor]) -> set[int]:
    """Nodes that sum or average plain rows which are materialised anyway: reading those again is not worth a
    second lookup."""
    atoms = interpreter.atoms
    needed = {index for tensor in demanded for index in interpreter.value(tensor).atoms if _is_plain(atoms[index])}
    found = set()
    for node in graph.nodes:
        if node.op in ("ReduceSum", "ReduceMean", "ReduceMax", "Add") and id(node.outputs[0]) in interpreter.hot:
            summed = {i for t in node.inputs if id(t) in interpreter.hot for i in interpreter.value(t).atoms}
            # a sum over a single element is that element
            summed -= set(interpreter.value(node.outputs[0]).atoms)
            if not needed.isdisjoint(summed):
                found.add(id(node))
    return found


def _pools_to_share(graph: gs.Graph, interpreter: Interpreter, demanded: list[gs.Tensor]) -> set[int]:
    """Pooled tensors that several joins hold and that have so many rows that pooling again costs more than a node
    of its own."""
    atoms = interpreter.atoms
    joins = {interpreter.value(tensor).codes.tobytes(): interpreter.value(tensor) for tensor in demanded}
    held = Counter(
        index for value in joins.values() for index in value.atoms if isinstance(atoms[index], (Pooled, Bagged))
    )
    limit = REPEATED_ROWS[interpreter.bench.provider]
    costly = {index for index, count in held.items() if (count - 1) * _row_count(atoms[index]) >= limit}
    found = set()
    for node in graph.nodes:
        for tensor in node.outputs:
            value = interpreter.values.get(id(tensor)) if id(tensor) in interpreter.hot else None
            if value is not None and len(value.atoms) == 1 and value.atoms[0] in costly:
                # the first tensor that holds the pool holds it whole
                costly.discard(value.atoms[0])
                found.add(id(tensor))
    return found


def _row_count(pool: Any) -> int:
    if isinstance(pool, Bagged):
        return DYNAMIC_ROWS
    return sum(DYNAMIC_ROWS if row.id.index == STAR else 1 for row, _ in pool.terms)


def _is_plain(atom: Atom) -> bool:
    """A row, or a sum of rows, without weights."""
    return isinstance(atom, TableRow) or (isinstance(atom, Pooled) and all(weight is None for _, weight in atom.terms))


def _table_type(interpreter: Interpreter, value: Value) -> np.dtype:
    for index in value.atoms:
        atom = interpreter.atoms[index]
        if isinstance(atom, Bagged):
            return np.dtype(interpreter.atoms.tables[atom.table].dtype)
        row = atom.terms[0][0] if isinstance(atom, Pooled) else getattr(atom, "row", atom)
        if isinstance(row, TableRow):
            return np.dtype(interpreter.atoms.tables[row.table].dtype)
    raise AssertionError("a value without table rows")


def _replace(
    graph: gs.Graph, bench: Workbench, interpreter: Interpreter, tensors: list[gs.Tensor], report: PassReport
) -> None:
    assembler = Assembler(interpreter.atoms, len(interpreter.value(tensors[0]).axes), bench.bad_ids)
    mains: dict[bytes, gs.Tensor] = {}
    views: list[tuple[gs.Tensor, gs.Tensor, Value]] = []
    outputs = {id(tensor) for tensor in graph.outputs}
    for tensor in tensors:
        value = interpreter.value(tensor)
        flat = np.ascontiguousarray(value.codes).tobytes()
        if flat in mains:
            views.append((mains[flat], tensor, value))
        else:
            mains[flat] = tensor
            assembler.add_output(value)
    assembly = assembler.result
    name = _function(bench, assembly)
    label = bench.new_name(f"{LOOKUP}_{tensors[0].name}")
    inputs = [*assembly.sources, *assembly.tables]
    node = Node(name, name=label, attrs={"program": str(assembly.program)}, inputs=inputs, domain=DOMAIN)
    graph.nodes.append(node)
    for tensor in mains.values():
        _give(bench, node, tensor)
    for main, tensor, value in views:
        if value.shape == interpreter.value(main).shape and id(tensor) not in outputs:
            replace_uses(tensor, main)
            continue
        # the same bytes under another shape
        shape = [0] * len(value.axes) + [int(d) for i, d in enumerate(value.codes.shape) if i not in value.axes]
        target = gs.Constant(bench.new_name(f"{tensor.name}_shape"), np.array(shape, np.int64))
        view = Node("Reshape", name=bench.new_name(f"{tensor.name}_view"), inputs=[main, target])
        graph.nodes.append(view)
        _give(bench, view, tensor)
    counts = Counter(type(block).__name__.lower() for block in assembly.program.blocks)
    detail = ", ".join(f"{count} {kind} blocks" for kind, count in sorted(counts.items()))
    read = f"{len(assembly.tables)} tables and {len(assembly.sources)} sources"
    report.changes.append(f"{label}: {detail} from {read} into {len(mains)} outputs")


def _give(bench: Workbench, node: gs.Node, tensor: gs.Tensor) -> None:
    set_producer(tensor, node, gs.Variable(bench.new_name(tensor.name), tensor.dtype, tensor.shape))


def _function(bench: Workbench, assembly: Assembly) -> str:
    table_type = helper.np_dtype_to_tensor_dtype(np.dtype(assembly.tables[0].dtype))
    source_types = [helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)) for t in assembly.sources]
    body = lookup_body(assembly.program, table_type, source_types, bench.opset)
    return add_function(bench, LOOKUP, body.inputs, body.outputs, body.nodes, ["program"])


def _misunderstood_loops(bench: Workbench) -> dict[int, str]:
    """Why a loop isn't taken in that looks like one over bags, by the id of each node in it."""
    reasons: dict[int, str] = {}
    for graph in bench.graphs():
        for node in graph.nodes:
            if node.op not in ("Loop", "ConcatFromSequence"):
                continue
            try:
                find_bag(node)
            except NotABagError as error:
                loop = node if node.op == "Loop" else node.inputs[0].inputs[0]
                reasons |= {id(inner): f"its loop is none over bags: {error}" for inner in with_inner([loop])}
    return reasons


def _refuse_unusual_tables(graph: gs.Graph, bench: Workbench, report: PassReport) -> None:
    for node in graph.nodes:
        if not gathers_rows(node):
            continue
        table = node.inputs[0]
        if (quantized := quantized_table(node, bench)) is not None:
            kind = type_name(quantized)
            report.refuse(
                node_label(node), f"its table is quantized to {kind}: optimize first, then quantize what is left"
            )
        elif is_table(table, bench) and table.dtype not in TABLE_TYPES:
            report.refuse(node_label(node), f"tables of type {type_name(table)} aren't supported")


def _why_left(node: gs.Node) -> str:
    table, ids = node.inputs
    if isinstance(ids, gs.Constant):
        return "its ids are constant"
    if ids.shape is None:
        return "the shape of its ids is unknown"
    if 0 in table.shape:
        return "its table is empty"
    sizes = [d for d in ids.shape if isinstance(d, int)]
    if int(np.prod(sizes)) * table.shape[1] > MAX_ELEMENTS:
        return f"ids of shape {list(ids.shape)} and rows of {table.shape[1]}: too many elements a row"
    return f"ids of shape {list(ids.shape)}: which axis is the batch is unclear"
