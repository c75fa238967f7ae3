"""Run a graph on symbols: find for every tensor near the embedding lookups which ids, rows and weights it holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.bag_loops import BagLoop, NotABagError, bag_count, find_bag
from dpiframe.graph_passes.canonicalize.constants import is_small_constant
from dpiframe.graph_passes.canonicalize.shape_values import Dim
from dpiframe.graph_passes.graphs import is_standard, reads, values_of
from dpiframe.graph_passes.lookups import arithmetic, layout
from dpiframe.graph_passes.lookups.symbols import (
    MAX_ELEMENTS,
    POSITION_MASK,
    SCALAR_TYPES,
    VECTORS,
    Atoms,
    Bagged,
    Column,
    Id,
    TableRow,
    Value,
    constant_value,
    source_value,
)
from dpiframe.graph_passes.lookups.tables import is_float_table, is_lookup
from dpiframe.graph_passes.workbench import Workbench

_CONSTANT_BYTES = 1 << 16
_TO_TYPE = {1: np.dtype(np.float32), 10: np.dtype(np.float16), 11: np.dtype(np.float64)}
_TO_INT = {6: np.dtype(np.int32), 7: np.dtype(np.int64)}


class Interpreter:
    """Symbolic values of one graph's tensors.

    After `run`, `values` maps id(tensor) to a Value and `hot` holds the ids of those that contain table rows. `level`
    counts, for each tensor, how many fused groups lie before it. `bags` holds the loops that are taken in, by the id of
    the node that gives their result. `excluded` names nodes (by id) that are taken as
    opaque, `materialized` tensors (by id) that are computed for themselves: what reads them reads floats, not rows.
    """

    def __init__(
        self, graph: gs.Graph, bench: Workbench, excluded: set[int], materialized: Collection[int] = ()
    ) -> None:
        self.graph = graph
        self.bench = bench
        self.excluded = excluded
        self.materialized = set(materialized)
        self.atoms = Atoms()
        self.values: dict[int, Value | None] = {}
        self.hot: set[int] = set()
        self.level: dict[int, int] = {}
        self.bags: dict[int, BagLoop] = {}
        self._graph_inputs = {id(t) for t in graph.inputs}
        self._graph_outputs = {id(t) for t in graph.outputs}

    def run(self) -> Interpreter:
        for node in self.graph.nodes:
            results = self._followed(node) if id(node) not in self.excluded else None
            level = max((self.level.get(id(t), 0) for t in reads(node)), default=0)
            for index, tensor in enumerate(node.outputs):
                value = results[index] if results is not None else None
                self.level[id(tensor)] = level
                if value is None:
                    continue
                self.values[id(tensor)] = value
                if self.has_rows(value):
                    self.hot.add(id(tensor))
                    self.level[id(tensor)] = 1 + self.source_level(value)
        return self

    def value(self, tensor: gs.Tensor) -> Value:
        """The value of a tensor that has one."""
        value = self.values[id(tensor)]
        assert value is not None
        return value

    def has_rows(self, value: Value) -> bool:
        return any(issubclass(kind, VECTORS) for kind in self.atoms.kinds(value))

    def source_level(self, value: Value) -> int:
        """The level of the latest tensor that the value's elements are made from."""
        return max((self.level.get(id(tensor), 0) for tensor in self._sources(value)), default=0)

    def _sources(self, value: Value) -> list[gs.Tensor]:
        return [self.atoms.sources[number] for number in self.atoms.sources_of(value)]

    def is_hot(self, tensor: gs.Tensor) -> bool:
        """Whether what reads the tensor may take its rows in."""
        return id(tensor) in self.hot and id(tensor) not in self.materialized

    def _followed(self, node: gs.Node) -> list[Value] | None:
        try:
            return self._evaluate(node)
        except (IndexError, TypeError, ValueError):
            # operands that no runtime would take, such as an axis that isn't there
            return None

    def _evaluate(self, node: gs.Node) -> list[Value] | None:
        if not is_standard(node) or not node.outputs:
            return None
        if is_lookup(node, self.bench):
            return self._lookup(node)
        if node.op in ("Loop", "ConcatFromSequence"):
            return self._bag(node)
        hot = any(map(self.is_hot, node.inputs))
        value: Any = None
        op = node.op
        if op in layout.VIEWS:
            value = self._view(node, hot)
        elif op in layout.PICKS:
            index = _constant(node.inputs[1])
            source = self._value(node.inputs[0], hot) if index is not None else None
            value = layout.PICKS[op](node, source, index) if source is not None and index is not None else None
        elif op == "Concat":
            sources = self._operands(node, hot)
            value = layout.concat(node, *sources) if sources else None
        elif op in arithmetic.PAIRS:
            # the other kind of remainder has the sign of the dividend
            pair = self._operands(node, hot) if not node.attrs.get("fmod") else None
            value = arithmetic.combine(arithmetic.PAIRS[op], pair[0], pair[1], self.atoms) if pair else None
        elif op in arithmetic.REDUCTIONS:
            value = self._reduce(node, hot)
        elif op == "MatMul":
            pair = self._operands(node, hot) if hot else None
            value = arithmetic.matmul(pair[0], pair[1], self.atoms) if pair else None
        elif op == "Cast":
            value = self._cast(node)
        elif op == "Not":
            source = self._value(node.inputs[0], False)
            value = arithmetic.convert(arithmetic.invert, source, self.atoms) if source else None
        values = value if isinstance(value, list) else [value] if value is not None else None
        if values is None or any(v.codes.size > MAX_ELEMENTS for v in values):
            return None
        # an empty part that nobody reads costs nothing
        given = [v for v, tensor in zip(values, node.outputs, strict=False) if v.codes.size or tensor.outputs]
        return values if all(self._pays(node, v, hot) for v in given) else None

    def _view(self, node: gs.Node, hot: bool) -> Value | list[Value] | None:
        operands = []
        for tensor in node.inputs[1:]:
            operand = _constant(tensor)
            # where a shape is computed, inference may have found what it comes to
            if operand is None and not tensor.is_empty() and node.op not in ("Reshape", "Expand"):
                return None
            operands.append(operand)
        source = self._value(node.inputs[0], hot)
        return layout.VIEWS[node.op](node, source, *operands) if source is not None else None

    def _operands(self, node: gs.Node, hot: bool) -> list[Value] | None:
        """All operands as symbols. Constants come last: most nodes of a model fall out before those are looked at."""
        order = sorted(range(len(node.inputs)), key=lambda i: isinstance(node.inputs[i], gs.Constant))
        found: dict[int, Value] = {}
        for index in order:
            value = self._value(node.inputs[index], hot)
            if value is None:
                return None
            found[index] = value
        return [found[index] for index in range(len(found))]

    def _pays(self, node: gs.Node, value: Value, hot: bool) -> bool:
        """Whether a value with table rows is worth computing inside the fused node."""
        if not hot or not self.has_rows(value):
            return not hot
        if value.axes != tuple(range(len(value.axes))):
            return False
        kinds = self.atoms.kinds(value)
        if any(not issubclass(kind, (*VECTORS, Column)) for kind in kinds):
            return False
        inputs = [t for t in node.inputs if self.is_hot(t)]
        # an operand that itself depends on lookups would make all lookups wait, and repeat, for it
        waits_for = [self.level.get(id(t), 0) for t in self._sources(value) if id(t) not in self.materialized]
        if max(waits_for, default=0) >= max(self.level[id(t)] for t in inputs):
            return False
        if node.op == "Concat":
            return True
        # a sum that is read twice is worth computing once
        if node.op == "Add" and any(len(t.outputs) > 1 or id(t) in self._graph_outputs for t in inputs):
            return False
        # repeating rows, or cutting them to pieces, costs more than letting the node that needs it do it
        before = [self.values[id(t)].codes for t in inputs]  # type: ignore[union-attr]
        return value.codes.size <= max(map(np.size, before)) and _runs(value.codes) <= max(map(_runs, before))

    def _value(self, tensor: gs.Tensor, hot: bool) -> Value | None:
        """A node's operand as symbols. Float tensors from elsewhere in the model only count beside table rows."""
        if id(tensor) in self.materialized:
            return source_value(tensor, self.atoms)
        known = self.values.get(id(tensor))
        if known is not None or tensor.is_empty():
            return known
        constant = _constant(tensor)
        if constant is not None:
            return constant_value(constant, self.atoms)
        if isinstance(tensor, gs.Constant) or tensor.dtype is None or isinstance(tensor.dtype, int):
            return None
        kind = SCALAR_TYPES.get(np.dtype(tensor.dtype))
        if kind == "int" or id(tensor) in self._graph_inputs or hot:
            value = source_value(tensor, self.atoms)
            if value is not None:
                self.values[id(tensor)] = value
            return value
        return None

    def _lookup(self, node: gs.Node) -> list[Value] | None:
        table, ids = node.inputs
        value = self._value(ids, False)
        if value is None or not value.axes or self.atoms.kinds(value) != {Id}:
            # whatever the ids are made of, they are ids
            value = source_value(ids, self.atoms) if not isinstance(ids, gs.Constant) else None
        if value is None or not value.axes or value.axes != tuple(range(len(value.axes))):
            return None
        rows, dim = (int(d) for d in table.shape)
        if rows == 0 or dim == 0 or value.codes.size * dim > MAX_ELEMENTS:
            return None
        number = self.atoms.table(table)

        def row(expr: Any) -> TableRow:
            return TableRow(number, expr, dim)

        first = arithmetic.convert(row, value, self.atoms)
        assert first is not None
        return [Value(first.codes[..., None] + np.arange(dim), value.axes, value.dims)]

    def _bag(self, node: gs.Node) -> list[Value] | None:
        try:
            bag = find_bag(node)
        except NotABagError:
            return None
        if bag is None or not is_float_table(bag.table, self.bench):
            return None
        rows, dim = (int(d) for d in bag.table.shape)
        offsets, ids = self._offsets(bag), self._list(bag.ids)
        weighable = bag.weights is None or bag.weights.dtype in (np.dtype(np.float32), bag.table.dtype)
        if offsets is None or ids is None or not weighable or rows == 0 or not 0 < dim <= MAX_ELEMENTS:
            return None
        weights = self.atoms.source(_flat(bag.weights)) if bag.weights is not None else None
        atom = Bagged(
            self.atoms.table(bag.table),
            ids,
            offsets[0],
            bag.bounds,
            bag.op,
            weights,
            bag.padding,
            bag.lowest,
            dim,
        )
        self.bags[id(node)] = bag
        return [Value(self.atoms.code(atom) + np.arange(dim)[None], (0,), (offsets[1],))]

    def _list(self, tensor: gs.Tensor) -> Id | None:
        """The ids of a list, with the steps that make them from the vector behind it."""
        if isinstance(tensor, gs.Constant):
            return None
        value = self._value(tensor, False)
        atom = self.atoms.of_code(value.codes.item()) if value is not None and value.codes.shape == (1,) else None
        if isinstance(atom, Id) and len(self.atoms.sources[atom.source].shape) == 1:
            return replace(atom, source=self.atoms.source(_flat(self.atoms.sources[atom.source])))
        return Id(self.atoms.source(_flat(tensor)), 0)

    def _offsets(self, bag: BagLoop) -> tuple[Id, Dim] | None:
        """The offset of a row, and how many rows there are."""
        tensor = bag.offsets
        value = self._value(tensor, False) if not isinstance(tensor, gs.Constant) else None
        atom = self.atoms.of_code(value.codes.item()) if value is not None and value.codes.shape == (1,) else None
        if isinstance(atom, Id) and bag.bounds:
            # bounds stand side by side
            source = source_value(self.atoms.sources[atom.source], self.atoms)
            atom = atom if source is not None and source.axes == (source.codes.ndim - 1,) else None
        if value is None or not isinstance(atom, Id) or value.axes != (0,):
            value = source_value(tensor, self.atoms)
            atom = self.atoms.of_code(value.codes.item()) if value is not None and value.codes.shape == (1,) else None
        if value is None or not isinstance(atom, Id):
            return None
        return atom, bag_count(value.dims[0], bag.bounds)

    def _reduce(self, node: gs.Node, hot: bool) -> Value | None:
        source = self._value(node.inputs[0], False)
        if source is None:
            return None
        operand = _constant(node.inputs[1]) if len(node.inputs) > 1 and not node.inputs[1].is_empty() else None
        axes = arithmetic.reduction_axes(node, operand, source.codes.ndim)
        keep = bool(node.attrs.get("keepdims", 1))
        return arithmetic.reduce(arithmetic.REDUCTIONS[node.op], source, axes, keep, self.atoms)

    def _cast(self, node: gs.Node) -> Value | None:
        source = self._value(node.inputs[0], False)
        if source is None:
            return None
        target = node.attrs["to"]
        if target in _TO_INT:
            # the op reads ids as int32, int64, float32 or float64
            if any(self.atoms.sources[s].dtype == np.dtype(np.float16) for s in self.atoms.sources_of(source)):
                return None
            narrowing = target == 6 and node.inputs[0].dtype == np.dtype(np.int64)
            if narrowing and any(
                self.atoms.sources[s].dtype == np.dtype(np.int64) for s in self.atoms.sources_of(source)
            ):
                return None
            return arithmetic.convert(arithmetic.to_int, source, self.atoms)
        if target in _TO_TYPE:
            other = any(self.atoms.sources[s].dtype != _TO_TYPE[target] for s in self.atoms.sources_of(source))
            if other and Column in self.atoms.kinds(source):
                return None
            return arithmetic.convert(arithmetic.to_float, source, self.atoms)
        return None


def _flat(tensor: gs.Tensor) -> gs.Tensor:
    """The tensor that a vector is laid out flat from: as a list it may have any shape."""
    producer = tensor.inputs[0] if tensor.inputs else None
    vector = tensor.shape is not None and len(tensor.shape) == 1
    if producer is None or not is_standard(producer) or producer.op != "Reshape" or not vector:
        return tensor
    before = producer.inputs[0]
    return tensor if isinstance(before, gs.Constant) or before.dtype is None else before


def _constant(tensor: gs.Tensor) -> np.ndarray | None:
    return values_of(tensor) if is_small_constant(tensor, _CONSTANT_BYTES) else None


def _runs(codes: np.ndarray) -> int:
    """How many runs of consecutive elements of one row the elements fall into."""
    flat = codes.ravel()
    return 1 + int(np.count_nonzero((np.diff(flat) != 1) | ((flat[1:] & POSITION_MASK) == 0)))
