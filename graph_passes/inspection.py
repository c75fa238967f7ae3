"""What a model is made of, with the optimizer's eyes: fields, tables, branches after the embedding, bytes and FLOP."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.functions import LOOKUP, count_ops, op_of
from dpiframe.graph_passes.graphs import type_name
from dpiframe.graph_passes.inline import inline_our_functions
from dpiframe.graph_passes.lookups.fuse import FuseLookups
from dpiframe.graph_passes.lookups.program import STAR, Bag, IdExpr, LookupProgram, Pool, Row, parse_program
from dpiframe.graph_passes.pipeline import models_after_passes, optimize_model
from dpiframe.graph_passes.report import PassReport
from dpiframe.graph_passes.workbench import Workbench


@dataclass(frozen=True)
class TableInfo:
    """An embedding table. bytes: rows * dim * element size. lookups: how many places of the model read it."""

    name: str
    rows: int
    dim: int
    bytes: int
    lookups: int

    @property
    def shared(self) -> bool:
        return self.lookups > 1


@dataclass(frozen=True)
class FieldInfo:
    """A lookup as the serving side sees it. ids: where they arrive, as `X[3]`. steps: what is done to them first."""

    ids: str
    type: str
    steps: str
    table: str
    dim: int
    kind: str


@dataclass(frozen=True)
class BranchInfo:
    """Nodes between embedding and join that don't meet another branch. parameters: weights; flop: for one row."""

    name: str
    nodes: int
    parameters: int
    flop: int
    operators: dict[str, int]


@dataclass
class Inspection:
    """A model's parts and what `optimize` would make of it. Bytes and FLOP are for one row of the batch.

    fused: how many nodes of each op of ours the file has already. Its parts are those of the nodes that these replaced.
    """

    inputs: dict[str, str]
    outputs: dict[str, str]
    fused: dict[str, int] = field(default_factory=dict)
    tables: list[TableInfo] = field(default_factory=list)
    fields: list[FieldInfo] = field(default_factory=list)
    branches: list[BranchInfo] = field(default_factory=list)
    head: BranchInfo | None = None
    table_bytes: int = 0
    weight_bytes: int = 0
    lookup_bytes_per_row: int = 0
    flop_per_row: int = 0
    nodes_before: int = 0
    nodes_after: int = 0
    lookups_before: int = 0
    lookups_fused: int = 0
    reports: list[PassReport] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        for table, info in zip(plain["tables"], self.tables, strict=True):
            table["shared"] = info.shared
        return plain


def inspect_model(model: onnx.ModelProto, provider: str = "cpu") -> Inspection:
    """Look a model over. Runs the passes on it but writes nothing; no table is read."""
    result = optimize_model(model, provider=provider)
    # the parts are told apart while their nodes can be seen
    stages = models_after_passes(model, provider=provider)
    stage = next(stage for name, stage in stages if name == FuseLookups.name)
    # only a lookup's program says which tables it reads: what else is fused already is seen as what it replaced
    bench = Workbench(inline_our_functions(stage, leaving=LOOKUP), provider=provider)
    bench.infer_shapes()
    inspection = Inspection(
        inputs={t.name: _describe(t) for t in bench.graph.inputs},
        outputs={t.name: _describe(t) for t in bench.graph.outputs},
        fused=count_ops(model),
        nodes_before=result.nodes_before,
        nodes_after=result.nodes_after,
        lookups_before=result.lookups_before,
        lookups_fused=result.lookups_fused,
        reports=result.reports,
    )
    _lookups(bench, inspection)
    _branches(bench.graph, inspection)
    weights = {id(t): t for t in bench.graph.tensors().values() if isinstance(t, gs.Constant)}
    tables = {t.name for t in inspection.tables}
    inspection.weight_bytes = sum(_bytes(t) for t in weights.values() if t.name not in tables)
    return inspection


def _lookups(bench: Workbench, inspection: Inspection) -> None:
    reads: dict[str, int] = {}
    seen: dict[str, gs.Tensor] = {}
    for graph in bench.graphs():
        for node in graph.nodes:
            if not _is_lookup(node):
                continue
            program = parse_program(node.attrs["program"])
            sources = node.inputs[: len(program.sources)]
            tables = node.inputs[len(program.sources) :]
            inspection.fields.extend(_fields(program, sources, tables))
            for block in program.blocks:
                # of the tables' type, as the outputs are, which have none where they lay inside of a region
                size = np.dtype(tables[0].dtype).itemsize
                read = len(block.terms) * block.width if isinstance(block, Pool) else block.width
                inspection.lookup_bytes_per_row += size * (read + block.width)
                single = [block] if isinstance(block, (Row, Bag)) else []
                for term in block.terms if isinstance(block, Pool) else single:
                    table = tables[term.table]
                    seen[table.name] = table
                    reads[table.name] = reads.get(table.name, 0) + 1
    for name, table in seen.items():
        rows, dim = (int(d) for d in table.shape)
        inspection.tables.append(TableInfo(name, rows, dim, _bytes(table), reads[name]))
    inspection.table_bytes = sum(t.bytes for t in inspection.tables)


def _is_lookup(node: gs.Node) -> bool:
    return op_of(node) == LOOKUP


def _fields(program: LookupProgram, sources: list[gs.Tensor], tables: list[gs.Tensor]) -> list[FieldInfo]:
    """One entry for each table, source of ids and way of pooling."""
    groups: dict[tuple[int, int | None, str], dict[IdExpr, None]] = {}
    for block in program.blocks:
        if isinstance(block, Row):
            groups.setdefault((block.table, block.id.source, ""), {})[block.id] = None
        elif isinstance(block, Bag):
            groups.setdefault((block.table, block.id.source, block.op), {})[block.id] = None
        elif isinstance(block, Pool):
            for term in block.terms:
                groups.setdefault((term.table, term.id.source, block.op), {})[term.id] = None
    found = []
    for (table, source, pooling), ids in groups.items():
        kind = f"{len(ids)} ids" if len(ids) > 1 else "one id"
        if any(i.column == STAR for i in ids):
            kind = "any number of ids"
        kind += f", {pooling}" if pooling else ""
        tensor = sources[source] if source is not None else None
        label = (
            _label(tensor, program.sources[source].columns, list(ids))
            if tensor is not None and source is not None
            else "constant"
        )
        steps = {_steps(i) for i in ids}
        found.append(
            FieldInfo(
                ids=label,
                type=str(np.dtype(tensor.dtype)) if tensor is not None else "int64",
                steps=steps.pop() if len(steps) == 1 else "an offset each",
                table=tables[table].name,
                dim=program.tables[table].dim,
                kind=kind,
            )
        )
    return found


def _label(tensor: gs.Tensor, columns: int, ids: list[IdExpr]) -> str:
    taken = sorted(i.column for i in ids)
    if columns in (1, STAR):
        return str(tensor.name)
    span = (
        f"{taken[0]}:{taken[-1] + 1}"
        if len(taken) > 1 and taken == list(range(taken[0], taken[-1] + 1))
        else ", ".join(map(str, taken))
    )
    return f"{tensor.name}[{span}]"


def _steps(expr: IdExpr) -> str:
    steps = []
    if expr.div != 1:
        steps.append(f"/ {expr.div}")
    if expr.mod:
        steps.append(f"mod {expr.mod}")
    if expr.mul != 1:
        steps.append(f"* {expr.mul}")
    if expr.add:
        steps.append(f"+ {expr.add}")
    return " ".join(steps)


def _branches(graph: gs.Graph, inspection: Inspection) -> None:
    """Split what follows the embedding: what all of its readers lead to is the head, the rest falls into branches."""
    lookups = [node for node in graph.nodes if _is_lookup(node)]
    starts = {
        id(reader): reader for node in lookups for t in node.outputs for reader in t.outputs if not _is_lookup(reader)
    }
    order = {id(node): i for i, node in enumerate(graph.nodes)}
    reached: dict[int, set[int]] = {key: {key} for key in starts}
    for node in graph.nodes:
        mine = reached.setdefault(id(node), set())
        for tensor in node.inputs:
            for producer in tensor.inputs:
                mine |= reached.get(id(producer), set())
    after = [node for node in graph.nodes if reached[id(node)] and not _is_lookup(node)]
    head = [node for node in after if len(reached[id(node)]) == len(starts) and len(starts) > 1]
    in_head = {id(node) for node in head}
    component = {id(node): id(node) for node in after if id(node) not in in_head}

    def find(key: int) -> int:
        while component[key] != key:
            component[key] = component[component[key]]
            key = component[key]
        return key

    for node in after:
        for tensor in node.inputs:
            for producer in tensor.inputs:
                if id(node) in component and id(producer) in component:
                    component[find(id(producer))] = find(id(node))
    groups: dict[int, list[gs.Node]] = {}
    for node in after:
        if id(node) in component:
            groups.setdefault(find(id(node)), []).append(node)
    for nodes in sorted(groups.values(), key=lambda n: order[id(n[0])]):
        inspection.branches.append(_branch(nodes[-1].outputs[0].name, nodes))
    inspection.head = _branch(head[-1].outputs[0].name, head) if head else None
    parts = inspection.branches + ([inspection.head] if inspection.head else [])
    inspection.flop_per_row = sum(part.flop for part in parts)


def _branch(name: str, nodes: list[gs.Node]) -> BranchInfo:
    weights = {id(t): t for node in nodes for t in node.inputs if isinstance(t, gs.Constant)}
    operators: dict[str, int] = {}
    for node in nodes:
        operators[node.op] = operators.get(node.op, 0) + 1
    parameters = sum(_elements(t) for t in weights.values())
    return BranchInfo(
        name, len(nodes), parameters, sum(map(_flop, nodes)), dict(sorted(operators.items(), key=lambda i: -i[1]))
    )


def _flop(node: gs.Node) -> int:
    """Floating-point operations for one row: 2 K an element of a matrix product, 1 an element of the rest."""
    elements = _elements(node.outputs[0])
    if node.op in ("Gemm", "MatMul") and node.inputs[0].shape:
        inner = node.inputs[0].shape[-2 if node.attrs.get("transA") else -1]
        return 2 * elements * (inner if isinstance(inner, int) else 1)
    if node.op == "Conv" and node.inputs[1].shape:
        return 2 * elements * int(np.prod([d for d in node.inputs[1].shape[1:] if isinstance(d, int)]))
    return 0 if node.op in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Shape") else elements


def _elements(tensor: gs.Tensor) -> int:
    return int(np.prod([d for d in tensor.shape or [] if isinstance(d, int)], dtype=np.int64))


def _bytes(tensor: gs.Tensor) -> int:
    return _elements(tensor) * (2 if isinstance(tensor.dtype, int) else np.dtype(tensor.dtype).itemsize)


def _describe(tensor: gs.Tensor) -> str:
    return f"{type_name(tensor)}{[d if d is not None else '?' for d in tensor.shape or []]}".replace("'", "")
