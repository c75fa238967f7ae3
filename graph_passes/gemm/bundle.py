"""Products of the same rows as one: those that share their left operand, and equal ones of different parts of it.

Experts, the heads of several tasks, projections to queries and keys, and bilinear interactions of pairs are many small
products, each of which would be a kernel of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.constants import MAX_GROWTH_BYTES, is_small_constant
from dpiframe.graph_passes.gemm.chains import is_absorbed
from dpiframe.graph_passes.gemm.epilogue import Operation, addition, following
from dpiframe.graph_passes.gemm.looked_up import in_the_join
from dpiframe.graph_passes.gemm.parts import Part, find_part
from dpiframe.graph_passes.gemm.product import NotSupportedError, Product, match_product
from dpiframe.graph_passes.gemm.program import MAX_RUNS, MAX_STEPS, GemmProgram, Step
from dpiframe.graph_passes.graphs import byte_size, values_of

MAX_WEIGHT_BYTES = 32 << 20
"""Of a weight that is read, to lie beside others."""
SHORT = 32
"""Products of at most so many values, or columns of a multiple of 8, are what runs have fast kernels for."""


@dataclass
class Member:
    """A product of a part of rows, and the operations after it that take nothing but constants.

    nodes: what they all stand for. result: what the last of these gives. cut: more could be done to its elements.
    """

    product: Product
    part: Part
    operations: list[Operation]
    nodes: list[gs.Node]
    result: gs.Tensor
    cut: bool

    @property
    def form(self) -> tuple[object, ...]:
        """What must be equal in the members of a bundle."""
        steps = tuple((operation.op, operation.operand is None, operation.number) for operation in self.operations)
        rows = tuple(self.result.shape[:-1])
        return id(self.part.source), self.part.leading, rows, self.product.k, steps


@dataclass
class Bundle:
    """Members that are one product, side by side.

    absorbed: whatever reads their results reads parts of rows as well. cut: more could be done to their elements.
    """

    members: list[Member]
    absorbed: bool
    cut: bool

    @property
    def columns(self) -> list[int]:
        return [member.product.n for member in self.members]


def find_bundles(nodes: Iterable[gs.Node], outputs: set[int]) -> Iterator[Bundle]:
    """Bundles of these nodes that cost less as one product than as several; none reads what another one gives."""
    members: dict[tuple[object, ...], list[Member]] = defaultdict(list)
    for node in nodes:
        member = _member(node, outputs)
        if member is not None:
            members[member.form].append(member)
    for alike in members.values():
        for group in _divided(alike):
            absorbed = all(is_absorbed(member.result, outputs) for member in group)
            bundle = Bundle(group, absorbed, any(member.cut for member in group))
            if _wins(bundle):
                yield bundle


def unread_members(graph: gs.Graph) -> Iterator[gs.Node]:
    """Products that share their left operand with others, but have weights that may not be read."""
    sharing: dict[int, list[gs.Node]] = defaultdict(list)
    for node in graph.nodes:
        with suppress(NotSupportedError):
            if match_product(node) is not None:
                sharing[id(node.inputs[0])].append(node)
    for nodes in sharing.values():
        if len(nodes) > 1:
            yield from (node for node in nodes if not is_small_constant(node.inputs[1], MAX_WEIGHT_BYTES))


def bundle_program(bundle: Bundle, precision: str) -> GemmProgram:
    """One product for all members, side by side."""
    first = bundle.members[0]
    steps = []
    for operation in first.operations:
        if operation.operand is None:
            steps.append(Step(operation.op, number=operation.number))
        else:
            steps.append(Step(operation.op, "vector", 2 + sum(bool(step.kind) for step in steps)))
    begins = tuple(member.part.begin for member in bundle.members)
    if len(set(begins)) == 1:
        begins = begins[:1]
    part = first.part
    return GemmProgram(
        precision, "nk", first.product.k, sum(bundle.columns), tuple(steps), part.left_axes, part.row, begins
    )


def bundle_constants(bundle: Bundle) -> list[np.ndarray]:
    """The weight [N, K] of all members, and the vectors that their operations take."""
    weights = [(values_of(member.product.weight), member.product.layout) for member in bundle.members]
    arrays = [np.concatenate([values if layout == "nk" else values.T for values, layout in weights])]
    for operations in zip(*(member.operations for member in bundle.members), strict=True):
        if operations[0].operand is not None:
            given = zip(operations, bundle.columns, strict=True)
            vectors = [np.broadcast_to(values_of(operation.operand).reshape(-1), n) for operation, n in given]
            arrays.append(np.concatenate(vectors))
    return arrays


def _member(node: gs.Node, outputs: set[int]) -> Member | None:
    try:
        product = match_product(node)
    except NotSupportedError:
        return None
    if product is None or not is_small_constant(product.weight, MAX_WEIGHT_BYTES):
        return None
    value = node.outputs[0]
    operations: list[Operation] = []
    if product.addend is not None:
        operations = addition(value, product.addend)
        if not operations or not _takes_constants(operations):
            return None
    nodes = [node]
    then = following(value, outputs)
    while then is not None and _takes_constants(then.operations):
        if len(operations) + len(then.operations) > MAX_STEPS:
            break
        operations = operations + then.operations
        nodes += then.nodes
        value = then.result
        then = following(value, outputs)
    left = node.inputs[0]
    part = in_the_join(find_part(left, _true_rows(left)))
    return Member(product, part, operations, nodes, value, cut=then is not None)


def _true_rows(left: gs.Tensor) -> int:
    """How many of the leading axes of a left operand make up its rows, those of one element at their end left out."""
    leading = len(left.shape) - 1
    while leading > 1 and left.shape[leading - 1] == 1:
        leading -= 1
    return leading


def _takes_constants(operations: Iterable[Operation]) -> bool:
    return all(
        o.operand is None or (o.kind in ("scalar", "vector") and is_small_constant(o.operand)) for o in operations
    )


def _divided(alike: list[Member]) -> Iterator[list[Member]]:
    """Members of one form, as far as they can be one product: of one part, or of parts with equally many columns."""
    if len({member.part.begin for member in alike}) == 1:
        yield alike
        return
    by_columns: dict[int, list[Member]] = defaultdict(list)
    for member in alike:
        by_columns[member.product.n].append(member)
    for columns, equal in by_columns.items():
        if columns % 8 == 0 or columns < 8 or equal[0].product.k <= SHORT:
            yield from (equal[first : first + MAX_RUNS] for first in range(0, len(equal), MAX_RUNS))


def _wins(bundle: Bundle) -> bool:
    """Fewer kernels: one for the product, one that divides it where its readers can't, one for what is cut off."""
    after = 1 + bundle.cut + (not bundle.absorbed)
    return len(bundle.members) > after and _growth(bundle.members) <= MAX_GROWTH_BYTES


def _growth(bundle: Sequence[Member]) -> int:
    """Bytes that the file grows by: weights that several members share, or that others read, are stored again."""
    own = {id(member.product.node) for member in bundle}
    weights = {id(member.product.weight): member.product.weight for member in bundle}
    gone = sum(byte_size(w) for w in weights.values() if all(id(reader) in own for reader in w.outputs))
    return sum(byte_size(member.product.weight) for member in bundle) - gone
