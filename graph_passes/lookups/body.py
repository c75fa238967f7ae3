"""The function body of a FusedMultiGather: its program as standard ONNX nodes. The body is the op's definition.

Written for opset 11 and later: what changed its form on the way (axes as attribute or operand) follows the model's
opset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.lookups.program import STAR, Block, Copy, IdExpr, LookupProgram, Pool, Row, Term, Weight

MIN_OPSET = 11


def lookup_body(program: LookupProgram, table_type: int, source_types: Sequence[int], opset: int) -> _Body:
    """The nodes that compute the program. `table_type` and `source_types` are TensorProto data types.

    Returns the builder: `.nodes`, `.inputs` (source_0 ..., table_0 ...), `.outputs` (output_0 ...).
    """
    body = _Body(program, table_type, source_types, opset)
    blocks: list[list[Block]] = [[] for _ in program.outputs]
    for block in program.blocks:
        blocks[block.output].append(block)
    for output, shape in enumerate(program.outputs):
        body.output(output, shape, sorted(blocks[output], key=lambda b: b.column))
    return body


class _Body:
    def __init__(self, program: LookupProgram, table_type: int, source_types: Sequence[int], opset: int) -> None:
        self.program = program
        self.table_type = table_type
        self.source_types = source_types
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
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
        joined = pieces[0] if len(pieces) == 1 else self._node("Concat", pieces, axis=self.program.rows)
        target = self._int64([0] * self.program.rows + list(shape))
        self.nodes.append(helper.make_node("Reshape", [joined, target], [f"output_{output}"]))

    def _pieces(self, blocks: list[Block]) -> list[str]:
        """Values `[row axes..., width]` for neighbouring blocks of one kind."""
        first = blocks[0]
        if isinstance(first, Copy):
            return [self._columns(b.source, range(b.first, b.first + b.width)) for b in blocks if isinstance(b, Copy)]
        if isinstance(first, Pool):
            return [self._pool(b) for b in blocks if isinstance(b, Pool)]
        rows = [b for b in blocks if isinstance(b, Row)]
        taken = self._rows(rows[0].table, [b.id for b in rows], rows[0].first, rows[0].width)
        return [self._reshape(taken, [0] * self.program.rows + [sum(b.width for b in rows)])]

    def _pool(self, block: Pool) -> str:
        groups = [list(group) for _, group in groupby(block.terms, key=_term_key)]
        parts = [self._rows(terms[0].table, [t.id for t in terms], terms[0].first, block.width) for terms in groups]
        axis = self.program.rows
        rows = parts[0] if len(parts) == 1 else self._node("Concat", parts, axis=axis)
        if all(t.weight.kind == "one" for t in block.terms):
            if block.op != "mean":
                return self._reduce("ReduceSum" if block.op == "sum" else "ReduceMax", rows, axis, keep=False)
            if all(t.id.column != STAR for t in block.terms):
                total = self._reduce("ReduceSum", rows, axis, keep=False)
                return self._node("Div", [total, self._scalar(len(block.terms) + block.x)])
        weights = [self._weights(terms) for terms in groups]
        weight = weights[0] if len(weights) == 1 else self._node("Concat", weights, axis=axis)
        wide = self._unsqueeze(weight, axis + 1)
        if block.op == "max":
            penalty = self._node("Mul", [self._node("Sub", [self._scalar(1.0), wide]), self._scalar(block.x)])
            return self._reduce("ReduceMax", self._node("Sub", [rows, penalty]), axis, keep=False)
        total = self._reduce("ReduceSum", self._node("Mul", [rows, wide]), axis, keep=False)
        if block.op == "sum":
            return total
        count = self._reduce("ReduceSum", weight, axis, keep=True)
        return self._node("Div", [total, self._node("Add", [count, self._scalar(block.x)]) if block.x else count])

    def _rows(self, table: int, ids: list[IdExpr], first: int, width: int) -> str:
        """Table rows for a list of ids: `[row axes..., ids, width]`."""
        index = self._id_values(ids)
        size = self.program.tables[table].rows
        name = f"table_{table}"
        valid = None
        if self.program.bad_ids == "clamp":
            index = self._clamp(index, -size, size - 1)
        elif self.program.bad_ids == "zero":
            below = self._node("Less", [index, self._int64([size])])
            above = self._node("Greater", [index, self._int64([-size - 1])])
            valid = self._node("And", [below, above])
            index = self._node("Where", [valid, index, self._int64([0])])
        rows = self._node("Gather", [name, index], axis=0)
        if valid is not None:
            rows = self._node("Where", [self._unsqueeze(valid, self.program.rows + 1), rows, self._scalar(0.0)])
        if (first, width) != (0, self.program.tables[table].dim):
            operands = [self._int64([v]) for v in (first, first + width, self.program.rows + 1)]
            rows = self._node("Slice", [rows, *operands])
        return rows

    def _clamp(self, index: str, low: int, high: int) -> str:
        first, last = self._int64([low]), self._int64([high])
        if self.opset >= 12:
            return self._node("Min", [self._node("Max", [index, first]), last])
        # Max and Min took no integers then
        index = self._node("Where", [self._node("Less", [index, first]), first, index])
        return self._node("Where", [self._node("Greater", [index, last]), last, index])

    def _id_values(self, ids: list[IdExpr]) -> str:
        """int64 ids `[row axes..., len(ids)]`; all of one source and of the same div and mod."""
        key = ("ids", *ids)
        if key in self._ids:
            return self._ids[key]
        source = ids[0].source
        if source is None:
            values = self._constant_ids(ids)
        else:
            columns = self._columns(source, [i.column for i in ids])
            narrow = self.source_types[source] != TensorProto.INT64
            values = self._node("Cast", [columns], to=TensorProto.INT64) if narrow else columns
            if ids[0].div != 1:
                values = self._node("Div", [values, self._int64([ids[0].div])])
            if ids[0].mod:
                values = self._node("Mod", [values, self._int64([ids[0].mod])])
            if any(i.mul != 1 for i in ids):
                values = self._node("Mul", [values, self._int64([i.mul for i in ids])])
            if any(i.add for i in ids):
                values = self._node("Add", [values, self._int64([i.add for i in ids])])
        self._ids[key] = values
        return values

    def _constant_ids(self, ids: list[IdExpr]) -> str:
        """Constant ids for every row: zeros of the rows' shape plus the constants."""
        column = self._columns(0, [0])
        whole = self._node("Cast", [column], to=TensorProto.INT64)
        zeros = self._node("Mul", [whole, self._int64([0])])
        return self._node("Add", [zeros, self._int64([i.column * i.mul + i.add for i in ids])])

    def _weights(self, terms: list[Term]) -> str:
        """Weights `[row axes..., len(terms)]` of neighbouring terms of one kind."""
        weights = self._weight_values(terms)
        first = terms[0].weight
        if terms[0].id.column == STAR and first.id is not None and first.id.column != STAR and first.number is not None:
            # one weight a row for every position
            weights = self._node("Mul", [weights, self._weight_values([Term(0, terms[0].id)])])
        return weights

    def _weight_values(self, terms: list[Term]) -> str:
        weights = [t.weight for t in terms]
        kind = weights[0].kind
        if kind == "one":
            ids = self._id_values([t.id for t in terms])
            return self._float(self._node("Equal", [ids, ids]))
        exprs = [_expr(w) for w in weights]
        if kind == "ne":
            ids = self._id_values(exprs)
            same = self._node("Equal", [ids, self._int64([w.number or 0 for w in weights])])
            return self._float(self._node("Not", [same]))
        if kind == "lt":
            ids = self._id_values(exprs)
            number = weights[0].number
            positions = (
                self._positions(terms[0].id) if number is None else self._int64([w.number or 0 for w in weights])
            )
            return self._float(self._node("Less", [positions, ids]))
        source = exprs[0].source
        assert source is not None
        values = self._columns(source, [e.column for e in exprs])
        same_type = self.source_types[source] == self.table_type
        return values if same_type else self._node("Cast", [values], to=self.table_type)

    def _positions(self, expr: IdExpr) -> str:
        """0, 1, ... up to the number of columns of a source whose number of columns is dynamic."""
        assert expr.source is not None
        shape = self._node("Shape", [self._matrix(expr.source)])
        count = self._node("Gather", [shape, self._constant(np.array(self.program.rows, np.int64))], axis=0)
        return self._node(
            "Range", [self._constant(np.array(0, np.int64)), count, self._constant(np.array(1, np.int64))]
        )

    def _columns(self, source: int, columns: Sequence[int]) -> str:
        """Columns of a source: `[row axes..., len(columns)]`; all of them where the column is STAR."""
        matrix = self._matrix(source)
        listed = list(columns)
        count = self.program.sources[source].columns
        if listed == [STAR] or listed == list(range(count)):
            return matrix
        if listed == list(range(listed[0], listed[-1] + 1)):
            operands = [self._int64([v]) for v in (listed[0], listed[-1] + 1, self.program.rows)]
            return self._node("Slice", [matrix, *operands])
        return self._node("Gather", [matrix, self._int64(listed)], axis=self.program.rows)

    def _matrix(self, source: int) -> str:
        """A source as `[row axes..., columns]`."""
        if source not in self._matrices:
            name, spec = f"source_{source}", self.program.sources[source]
            if spec.layout == "column":
                matrix = self._node("Transpose", [name], perm=[1, 0])
            elif spec.columns == STAR:
                matrix = name
            else:
                matrix = self._reshape(name, [0] * self.program.rows + [spec.columns])
            self._matrices[source] = matrix
        return self._matrices[source]

    def _float(self, value: str) -> str:
        return self._node("Cast", [value], to=self.table_type)

    def _reshape(self, value: str, shape: list[int]) -> str:
        return self._node("Reshape", [value, self._int64(shape)])

    def _unsqueeze(self, value: str, axis: int) -> str:
        if self.opset < 13:
            return self._node("Unsqueeze", [value], axes=[axis])
        return self._node("Unsqueeze", [value, self._int64([axis])])

    def _reduce(self, op: str, value: str, axis: int, keep: bool) -> str:
        if self.opset < (13 if op == "ReduceSum" else 18):
            return self._node(op, [value], axes=[axis], keepdims=int(keep))
        return self._node(op, [value, self._int64([axis])], keepdims=int(keep))

    def _scalar(self, value: float) -> str:
        return self._constant(np.array(value, helper.tensor_dtype_to_np_dtype(self.table_type)))

    def _int64(self, values: list[int]) -> str:
        return self._constant(np.array(values, np.int64))

    def _constant(self, value: np.ndarray) -> str:
        key = value.dtype.str.encode() + str(value.shape).encode() + value.tobytes()
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)))
            self._constants[key] = name
        return self._constants[key]

    def _node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = f"value_{self._count}"
        self._count += 1
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name


def _piece_key(block: Block) -> tuple[object, ...]:
    """Neighbours with the same key are looked up by one Gather."""
    if isinstance(block, Row):
        return ("row", block.table, block.first, block.width, *_id_key(block.id))
    return (type(block).__name__, block.column)


def _term_key(term: Term) -> tuple[object, ...]:
    weight = (term.weight.kind, term.weight.number is None, *(_id_key(term.weight.id) if term.weight.id else ()))
    return (term.table, term.first, *_id_key(term.id), *weight)


def _id_key(expr: IdExpr) -> tuple[object, ...]:
    return (expr.source, expr.div, expr.mod, expr.column if expr.column == STAR else None)


def _expr(weight: Weight) -> IdExpr:
    assert weight.id is not None
    return weight.id
