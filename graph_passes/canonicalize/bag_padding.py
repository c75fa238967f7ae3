"""The inner loop that an exporter writes for nn.EmbeddingBag's padding: it lists the positions of a bag without those
whose id is the padding's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.bag_symbols import Offset, Outer, constant_integer, producer_of


def read_padding(
    value_of: Callable[[gs.Tensor], Any], body: gs.Graph, place: int, kept_place: int
) -> tuple[Offset, gs.Tensor, int, int] | None:
    """Of an inner loop: where it ends, and the ids, padding and table rows by which it leaves positions out.

    place, kept_place: which inputs of the body are the position and the list of those that are kept.
    """
    position, kept, next_position = body.inputs[place], body.inputs[kept_place], body.outputs[place - 1]
    condition, step, result = (producer_of(body.outputs[i]) for i in (0, place - 1, kept_place - 1))
    if condition is None or condition.op != "Less" or step is None or step.op != "Add" or result is None:
        return None
    one = value_of(step.inputs[1])
    if condition.inputs[0] is not next_position or step.inputs[0] is not position:
        return None
    if not isinstance(one, Outer) or constant_integer(one.tensor) != 1:
        return None
    end = value_of(condition.inputs[1])
    if not isinstance(end, Offset) or result.op != "If":
        return None
    test = producer_of(result.inputs[0])
    appended = producer_of(result.attrs["then_branch"].outputs[0])
    left_out = producer_of(result.attrs["else_branch"].outputs[0])
    if test is None or test.op != "Not" or appended is None or appended.op != "Concat":
        return None
    unchanged = result.attrs["else_branch"].outputs[0] is kept or (
        left_out is not None and left_out.op == "Identity" and left_out.inputs[0] is kept
    )
    added = producer_of(appended.inputs[1])
    if not unchanged or appended.inputs[0] is not kept or added is None or added.op not in ("Reshape", "Unsqueeze"):
        return None
    if added.inputs[0] is not position:
        return None
    equal = producer_of(test.inputs[0])
    if equal is None or equal.op != "Equal":
        return None
    padding = value_of(equal.inputs[1])
    index, rows = _from_the_end(equal.inputs[0])
    gather = producer_of(index) if index is not None else None
    if gather is None or gather.op != "Gather" or gather.inputs[1] is not position or gather.attrs.get("axis", 0) != 0:
        return None
    ids = value_of(gather.inputs[0])
    if not isinstance(ids, Outer) or not isinstance(padding, Outer) or constant_integer(padding.tensor) is None:
        return None
    return end, ids.tensor, int(constant_integer(padding.tensor) or 0), rows


def _from_the_end(tensor: gs.Tensor) -> tuple[gs.Tensor | None, int]:
    """x and n, where the tensor is x or, if x is below 0, x + n."""
    node = producer_of(tensor)
    if node is None or node.op != "If":
        return None, 0
    less = producer_of(node.inputs[0])
    added = producer_of(node.attrs["then_branch"].outputs[0])
    same = node.attrs["else_branch"].outputs[0]
    same_node = producer_of(same)
    if same_node is not None and same_node.op == "Identity":
        same = same_node.inputs[0]
    if less is None or less.op != "Less" or added is None or added.op != "Add":
        return None, 0
    zero, rows = _constant_behind(less.inputs[1]), _constant_behind(added.inputs[1])
    if less.inputs[0] is not same or added.inputs[0] is not same or zero != 0 or rows is None:
        return None, 0
    return same, rows


def _constant_behind(tensor: gs.Tensor) -> int | None:
    while tensor.inputs and tensor.inputs[0].op in ("Cast", "CastLike", "Identity"):
        tensor = tensor.inputs[0].inputs[0]
    return constant_integer(tensor)
