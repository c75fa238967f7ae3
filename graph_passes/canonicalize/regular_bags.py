"""Bags that are all equally long: one-hot and fixed-hotness uses of nn.EmbeddingBag become plain lookups."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.bag_loops import BagLoop, NotABagError, find_bag
from dpiframe.graph_passes.canonicalize.progressions import Progressions
from dpiframe.graph_passes.canonicalize.sizes import Size
from dpiframe.graph_passes.graphs import Node, set_producer
from dpiframe.graph_passes.workbench import Workbench

_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}


def pool_regular_bags(bench: Workbench, changes: list[str]) -> bool:
    """Replace a loop over bags of L ids each by a Gather of [rows, L] ids and a reduction, of one id by a Gather."""
    found = 0
    for graph in bench.graphs():
        for node in list(graph.nodes):
            if node.op not in ("Loop", "ConcatFromSequence") or not node.outputs[0].outputs + [
                tensor for tensor in graph.outputs if tensor is node.outputs[0]
            ]:
                continue
            bag = _bag(node)
            length = bag.regular_length(Progressions()) if bag is not None and bag.padding is None else None
            if bag is not None and length is not None and _replace(bench, graph, node, bag, length):
                found += 1
    if found:
        changes.append(f"{found} loops over equally long bags are lookups")
    return bool(found)


def _bag(node: Node) -> BagLoop | None:
    try:
        return find_bag(node)
    except NotABagError:
        return None


def _replace(bench: Workbench, graph: gs.Graph, node: Node, bag: BagLoop, length: Size) -> bool:
    writer = _Writer(bench, graph, node.outputs[0])
    ids = writer.by_bag(bag.ids, length)
    weights = writer.by_bag(bag.weights, length) if bag.weights is not None else None
    if ids is None or (bag.weights is not None and weights is None):
        return False
    rows = writer.node("Gather", [bag.table, ids], bag.table.dtype, axis=0)
    if weights is not None:
        wide = writer.unsqueeze(weights, 1 if length.number == 1 else 2)
        rows = writer.node("Mul", [rows, wide], bag.table.dtype)
    if length.number != 1:
        rows = writer.reduce(_REDUCTIONS[bag.op], rows)
    writer.finish(rows)
    return True


class _Writer:
    """Writes the nodes that give a tensor in place of those that do."""

    def __init__(self, bench: Workbench, graph: gs.Graph, output: gs.Tensor) -> None:
        self.bench, self.graph, self.output = bench, graph, output
        self._made: list[Node] = []

    def by_bag(self, tensor: gs.Tensor, length: Size) -> gs.Tensor | None:
        """A list as a matrix with a row a bag; as it is where a bag has one element."""
        if length.number == 1:
            return tensor
        if length.number is not None:
            target = self._constant(np.array([-1, length.number], np.int64))
            return self.node("Reshape", [tensor, target], tensor.dtype)
        # only where the matrix is at hand is its width known
        producer = tensor.inputs[0] if tensor.inputs else None
        if producer is None or producer.op != "Reshape":
            return None
        dims = Progressions().dims(producer.inputs[0])
        return producer.inputs[0] if dims is not None and len(dims) == 2 and dims[1] == length else None

    def unsqueeze(self, tensor: gs.Tensor, axis: int) -> gs.Tensor:
        if self.bench.opset < 13:
            return self.node("Unsqueeze", [tensor], tensor.dtype, axes=[axis])
        return self.node("Unsqueeze", [tensor, self._constant(np.array([axis], np.int64))], tensor.dtype)

    def reduce(self, op: str, tensor: gs.Tensor) -> gs.Tensor:
        if self.bench.opset < (13 if op == "ReduceSum" else 18):
            return self.node(op, [tensor], tensor.dtype, axes=[1], keepdims=0)
        return self.node(op, [tensor, self._constant(np.array([1], np.int64))], tensor.dtype, keepdims=0)

    def node(self, op: str, inputs: list[gs.Tensor], dtype: object, **attributes: object) -> gs.Tensor:
        name = self.bench.new_name(f"{self.output.name}_{op.lower()}")
        result = gs.Variable(name, dtype)
        made = Node(op, name=self.bench.new_name(name), attrs=attributes, inputs=inputs, outputs=[result])
        self._made.append(made)
        return result

    def finish(self, result: gs.Tensor) -> None:
        """Let the output be what the last node gives."""
        last = self._made[-1]
        last.outputs.remove(result)
        self.graph.nodes.extend(self._made)
        set_producer(self.output, last, gs.Variable(self.bench.new_name(self.output.name)))

    def _constant(self, values: np.ndarray) -> gs.Constant:
        return gs.Constant(self.bench.new_name(f"{self.output.name}_constant"), values)
