"""The function body of a FusedMultiGather: its program as standard ONNX nodes. The body is the op's definition.

Written for opset 11 and later: what changed its form on the way (axes as attribute or operand) follows the model's
opset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.lookups.bag_body import write_bag
from dpiframe.graph_passes.lookups.program import STAR, Bag, Block, Copy, IdExpr, LookupProgram, Pool, Row, Term, Weight

MIN_OPSET = 11


def lookup_body(program: LookupProgram, table_type: int, source_types: Sequence[int], opset: int) -> LookupBody:
    """The nodes that compute the program. `table_type` and `source_types` are TensorProto data types.

    Returns the builder: `.nodes`, `.inputs` (source_0 ..., table_0 ...), `.outputs` (output_0 ...).
    """
    body = LookupBody(program, table_type, source_types, opset)
    blocks: list[list[Block]] = [[] for _ in program.outputs]
    for block in program.blocks:
        blocks[block.output].append(block)
    for output, shape in enumerate(program.outputs):
        body.output(output, shape, sorted(blocks[output], key=lambda b: b.column))
    return body


class LookupBody:
    """Nodes and names of a body while it is written."""

    def __init__(self, program: LookupProgram, table_type: int, source_types: Sequence[int], opset: int) -> None:
        self.program = program
        self.table_type = table_type
        self.table_dtype = helper.tensor_dtype_to_np_dtype(table_type)
        self.source_types = source_types
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self._outermost = self.nodes
        self.inputs = [f"source_{i}" for i in range(len(program.sources))] + [
            f"table_{i}" for i in range(len(program.tables))
        ]
        self.outputs = [f"output_{i}" for i in range(len(program.outputs))]
        self._constants: dict[bytes, str] = {}
        self._matrices: dict[int, str] = {}
        self._ids: dict[tuple[object, ...], str] = {}
        self._count = 0

    def output(self, output: int, shape: tuple[int, ...], blocks: list[Block]) -> None:
        pieces = []
        for _, group in groupby(blocks, key=_piece_key):
            pieces.extend(self._pieces(list(group)))
        joined = pieces[0] if len(pieces) == 1 else self.node("Concat", pieces, axis=self.program.rows)
        target = self.int64([0] * self.program.rows + list(shape))
        self.nodes.append(helper.make_node("Reshape", [joined, target], [f"output_{output}"]))

    def _pieces(self, blocks: list[Block]) -> list[str]:
        """Values `[row axes..., width]` for neighbouring blocks of one kind."""
        first = blocks[0]
        if isinstance(first, Copy):
            return [self._columns(b.source, range(b.first, b.first + b.width)) for b in blocks if isinstance(b, Copy)]
        if isinstance(first, Pool):
            return [self._pool(b) for b in blocks if isinstance(b, Pool)]
        if isinstance(first, Bag):
            return [write_bag(self, b) for b in blocks if isinstance(b, Bag)]
        rows = [b for b in blocks if isinstance(b, Row)]
        taken = self._rows(rows[0].table, [b.id for b in rows], rows[0].first, rows[0].width)
        return [self.reshape(taken, [0] * self.program.rows + [sum(b.width for b in rows)])]

    def _pool(self, block: Pool) -> str:
        groups = _looked_up_together(block.terms)
        parts = [self._rows(terms[0].table, [t.id for t in terms], terms[0].first, block.width) for terms in groups]
        axis = self.program.rows
        rows = parts[0] if len(parts) == 1 else self.node("Concat", parts, axis=axis)
        if all(t.weight.kind == "one" for t in block.terms):
            if block.op != "mean":
                return self.reduce("ReduceSum" if block.op == "sum" else "ReduceMax", rows, axis, keep=False)
            if all(t.id.column != STAR for t in block.terms):
                total = self.reduce("ReduceSum", rows, axis, keep=False)
                return self.node("Div", [total, self.scalar(len(block.terms) + block.x)])
        weights = [self._weights(terms) for terms in groups]
        weight = weights[0] if len(weights) == 1 else self.node("Concat", weights, axis=axis)
        wide = self.unsqueeze(weight, axis + 1)
        if block.op == "max":
            penalty = self.node("Mul", [self.node("Sub", [self.scalar(1.0), wide]), self.scalar(block.x)])
            return self.reduce("ReduceMax", self.node("Sub", [rows, penalty]), axis, keep=False)
        total = self.reduce("ReduceSum", self.node("Mul", [rows, wide]), axis, keep=False)
        if block.op == "sum":
            return total
        count = self.reduce("ReduceSum", weight, axis, keep=True)
        return self.node("Div", [total, self.node("Add", [count, self.scalar(block.x)]) if block.x else count])

    def _rows(self, table: int, ids: list[IdExpr], first: int, width: int) -> str:
        """Table rows for a list of ids: `[row axes..., ids, width]`."""
        return self.looked_up(table, self._id_values(ids), first, width, self.program.rows + 1)

    def looked_up(self, table: int, index: str, first: int, width: int, axis: int) -> str:
        """Table rows for ids whose shape has `axis` axes."""
        size = self.program.tables[table].rows
        name = f"table_{table}"
        valid = None
        if self.program.bad_ids == "clamp":
            index = self._clamp(index, -size, size - 1)
        elif self.program.bad_ids == "zero":
            below = self.node("Less", [index, self.int64([size])])
            above = self.node("Greater", [index, self.int64([-size - 1])])
            valid = self.node("And", [below, above])
            index = self.node("Where", [valid, index, self.int64([0])])
        rows = self.node("Gather", [name, index], axis=0)
        if valid is not None:
            rows = self.node("Where", [self.unsqueeze(valid, axis), rows, self.scalar(0.0)])
        if (first, width) != (0, self.program.tables[table].dim):
            operands = [self.int64([v]) for v in (first, first + width, axis)]
            rows = self.node("Slice", [rows, *operands])
        return rows

    def _clamp(self, index: str, low: int, high: int) -> str:
        first, last = self.int64([low]), self.int64([high])
        if self.opset >= 12:
            return self.node("Min", [self.node("Max", [index, first]), last])
        # Max and Min took no integers then
        index = self.node("Where", [self.node("Less", [index, first]), first, index])
        return self.node("Where", [self.node("Greater", [index, last]), last, index])

    def _id_values(self, ids: list[IdExpr]) -> str:
        """int64 ids `[row axes..., len(ids)]`; all of one source and of the same div and mod."""
        key = ("ids", *ids)
        if key in self._ids:
            return self._ids[key]
        source = ids[0].source
        if source is None:
            values = self._constant_ids(ids)
        else:
            values = self.computed(self._columns(source, [i.column for i in ids]), ids)
        self._ids[key] = values
        return values

    def computed(self, columns: str, ids: Sequence[IdExpr]) -> str:
        """What the steps of ids, all of one source and of the same div and mod, make of its columns."""
        source = ids[0].source
        assert source is not None
        narrow = self.source_types[source] != TensorProto.INT64
        values = self.node("Cast", [columns], to=TensorProto.INT64) if narrow else columns
        if ids[0].div != 1:
            values = self.node("Div", [values, self.int64([ids[0].div])])
        if ids[0].mod:
            values = self.node("Mod", [values, self.int64([ids[0].mod])])
        if any(i.mul != 1 for i in ids):
            values = self.node("Mul", [values, self.int64([i.mul for i in ids])])
        if any(i.add for i in ids):
            values = self.node("Add", [values, self.int64([i.add for i in ids])])
        return values

    def column_ids(self, expr: IdExpr) -> str:
        """One id a row: `[rows]`."""
        return self.reshape(self._id_values([expr]), [-1])

    def loop(self, trips: str, width: int, write: Callable[[str], str]) -> str:
        """`[trips, width]`: what the nodes give that `write` writes for an iteration, given the name of its number."""
        count, condition = self._name(), self._name()
        around, self.nodes = self.nodes, []
        row = write(count)
        goes_on = self.node("Identity", [condition])
        inner, self.nodes = self.nodes, around
        graph = helper.make_graph(
            inner,
            "bag",
            [
                helper.make_tensor_value_info(count, TensorProto.INT64, []),
                helper.make_tensor_value_info(condition, TensorProto.BOOL, []),
            ],
            [
                helper.make_tensor_value_info(goes_on, TensorProto.BOOL, []),
                helper.make_tensor_value_info(row, self.table_type, [width]),
            ],
        )
        return self.node("Loop", [trips, self.constant(np.array(True))], body=graph)

    def _constant_ids(self, ids: list[IdExpr]) -> str:
        """Constant ids for every row: zeros of the rows' shape plus the constants."""
        column = self._columns(0, [0])
        whole = self.node("Cast", [column], to=TensorProto.INT64)
        zeros = self.node("Mul", [whole, self.int64([0])])
        return self.node("Add", [zeros, self.int64([i.column * i.mul + i.add for i in ids])])

    def _weights(self, terms: list[Term]) -> str:
        """Weights `[row axes..., len(terms)]` of neighbouring terms of one kind."""
        weights = self._weight_values(terms)
        first = terms[0].weight
        if terms[0].id.column == STAR and first.id is not None and first.id.column != STAR and first.number is not None:
            # one weight a row for every position
            weights = self.node("Mul", [weights, self._weight_values([Term(0, terms[0].id)])])
        return weights

    def _weight_values(self, terms: list[Term]) -> str:
        weights = [t.weight for t in terms]
        kind = weights[0].kind
        if kind == "one":
            ids = self._id_values([t.id for t in terms])
            return self._float(self.node("Equal", [ids, ids]))
        exprs = [_expr(w) for w in weights]
        if kind == "ne":
            ids = self._id_values(exprs)
            same = self.node("Equal", [ids, self.int64([w.number or 0 for w in weights])])
            return self._float(self.node("Not", [same]))
        if kind == "lt":
            ids = self._id_values(exprs)
            number = weights[0].number
            positions = self._positions(terms[0].id) if number is None else self.int64([w.number or 0 for w in weights])
            return self._float(self.node("Less", [positions, ids]))
        source = exprs[0].source
        assert source is not None
        values = self._columns(source, [e.column for e in exprs])
        same_type = self.source_types[source] == self.table_type
        return values if same_type else self.node("Cast", [values], to=self.table_type)

    def _positions(self, expr: IdExpr) -> str:
        """0, 1, ... up to the number of columns of a source whose number of columns is dynamic."""
        assert expr.source is not None
        shape = self.node("Shape", [self._matrix(expr.source)])
        count = self.node("Gather", [shape, self.constant(np.array(self.program.rows, np.int64))], axis=0)
        return self.node("Range", [self.constant(np.array(0, np.int64)), count, self.constant(np.array(1, np.int64))])

    def _columns(self, source: int, columns: Sequence[int]) -> str:
        """Columns of a source: `[row axes..., len(columns)]`; all of them where the column is STAR."""
        matrix = self._matrix(source)
        listed = list(columns)
        count = self.program.sources[source].columns
        if listed == [STAR] or listed == list(range(count)):
            return matrix
        if listed == list(range(listed[0], listed[-1] + 1)):
            operands = [self.int64([v]) for v in (listed[0], listed[-1] + 1, self.program.rows)]
            return self.node("Slice", [matrix, *operands])
        return self.node("Gather", [matrix, self.int64(listed)], axis=self.program.rows)

    def _matrix(self, source: int) -> str:
        """A source as `[row axes..., columns]`."""
        if source not in self._matrices:
            name, spec = f"source_{source}", self.program.sources[source]
            if spec.layout == "column":
                matrix = self.node("Transpose", [name], perm=[1, 0])
            elif spec.columns == STAR:
                matrix = name
            else:
                matrix = self.reshape(name, [0] * self.program.rows + [spec.columns])
            self._matrices[source] = matrix
        return self._matrices[source]

    def _float(self, value: str) -> str:
        return self.node("Cast", [value], to=self.table_type)

    def reshape(self, value: str, shape: list[int]) -> str:
        return self.node("Reshape", [value, self.int64(shape)])

    def unsqueeze(self, value: str, axis: int) -> str:
        if self.opset < 13:
            return self.node("Unsqueeze", [value], axes=[axis])
        return self.node("Unsqueeze", [value, self.int64([axis])])

    def reduce(self, op: str, value: str, axis: int, keep: bool) -> str:
        if self.opset < (13 if op == "ReduceSum" else 18):
            return self.node(op, [value], axes=[axis], keepdims=int(keep))
        return self.node(op, [value, self.int64([axis])], keepdims=int(keep))

    def scalar(self, value: float) -> str:
        return self.constant(np.array(value, self.table_dtype))

    def int64(self, values: list[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def constant(self, value: np.ndarray) -> str:
        key = value.dtype.str.encode() + str(value.shape).encode() + value.tobytes()
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            # outside of any loop, where all can read it
            self._outermost.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)))
            self._constants[key] = name
        return self._constants[key]

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = self._name()
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def _name(self) -> str:
        self._count += 1
        return f"value_{self._count - 1}"


def _piece_key(block: Block) -> tuple[object, ...]:
    """Neighbours with the same key are looked up by one Gather."""
    if isinstance(block, Row):
        return ("row", block.table, block.first, block.width, *_id_key(block.id))
    return (type(block).__name__, block.column)


def _looked_up_together(terms: Iterable[Term]) -> list[list[Term]]:
    """Neighbouring terms that one Gather looks up. One that takes all columns of a source has a Gather of its own."""
    groups: list[list[Term]] = []
    for term in terms:
        if groups and term.id.column != STAR and _term_key(groups[-1][0]) == _term_key(term):
            groups[-1].append(term)
        else:
            groups.append([term])
    return groups


def _term_key(term: Term) -> tuple[object, ...]:
    weight = (term.weight.kind, term.weight.number is None, *(_id_key(term.weight.id) if term.weight.id else ()))
    return (term.table, term.first, *_id_key(term.id), *weight)


def _id_key(expr: IdExpr) -> tuple[object, ...]:
    return (expr.source, expr.div, expr.mod, expr.column if expr.column == STAR else None)


def _expr(weight: Weight) -> IdExpr:
    assert weight.id is not None
    return weight.id
