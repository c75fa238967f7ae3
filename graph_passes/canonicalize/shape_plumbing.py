"""Replace shapes computed at run time by constants, as far as only one dimension of each is unknown."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from dpiframe.graph_passes.canonicalize.shape_values import Dim, is_known, shape_values, value_of
from dpiframe.graph_passes.graphs import is_standard, replace_uses, set_input
from dpiframe.graph_passes.workbench import Workbench


def fix_shapes(bench: Workbench, changes: list[str]) -> bool:
    """Fold shape values that turn out to be numbers; give Reshape, Expand and Tile constant operands where
    they can have them."""
    outputs = bench.output_ids()
    folded = rewritten = solved = 0
    known: dict[int, np.ndarray] = {}
    for graph in bench.graphs():
        known = shape_values(graph, known)
        for node in filter(is_standard, graph.nodes):
            value = known.get(id(node.outputs[0])) if len(node.outputs) == 1 else None
            if value is not None and is_known(value) and id(node.outputs[0]) not in outputs and node.outputs[0].outputs:
                dtype = node.outputs[0].dtype
                if dtype in _SHAPE_TYPES:
                    constant = _constant(node.outputs[0].name, value, dtype)
                    if constant is not None:
                        replace_uses(node.outputs[0], constant)
                        folded += 1
            elif node.op in _SOLUTIONS and _solve(bench, node):
                solved += 1
            elif node.op in _OPERANDS and len(node.inputs) > 1 and not isinstance(node.inputs[1], gs.Constant):
                target = value_of(node.inputs[1], known)
                fixed = _OPERANDS[node.op](node, target) if target is not None else None
                if fixed is not None:
                    name = bench.new_name(f"{node.outputs[0].name}_{node.op.lower()}")
                    set_input(node, 1, gs.Constant(name, np.array(fixed, np.int64)))
                    rewritten += 1
                    if node.op == "Reshape":
                        _solve(bench, node, though_known=True)
    if folded:
        changes.append(f"{folded} shape values are constants now")
    if rewritten:
        changes.append(f"{rewritten} computed shapes are constants now")
    return bool(folded or rewritten or solved)


def _solve(bench: Workbench, node: gs.Node, though_known: bool = False) -> bool:
    """Find the shape that a Reshape or a Tile gives where ONNX's inference doesn't, as it computes with numbers only.

    though_known: even if the shape is known now, which it may no longer be once its computed target is a constant.
    """
    source, target, output = node.inputs[0], node.inputs[1], node.outputs[0]
    # a tensor without a type can't be told to inference
    if (
        id(output) in bench.found_shapes
        or not isinstance(target, gs.Constant)
        or not isinstance(output.dtype, np.dtype)
    ):
        return False
    wanted = value_of(target, {})
    if wanted is None or source.shape is None:
        return False
    if not though_known and output.shape is not None and _is_complete(output.shape):
        return False
    dims = _SOLUTIONS[node.op](node, list(source.shape), list(wanted.ravel()))
    if dims is None or not _is_complete(dims):
        return False
    output.shape = dims
    bench.found_shapes[id(output)] = output
    return True


def _is_complete(shape: list[Dim]) -> bool:
    return not any(dim is None or str(dim).startswith("unk__") for dim in shape)


def _solve_reshape(node: gs.Node, shape: list[Dim], target: list[Dim]) -> list[Dim] | None:
    return solve_reshape(shape, target, bool(node.attrs.get("allowzero", 0)))


def _solve_tile(_: gs.Node, shape: list[Dim], repeats: list[Dim]) -> list[Dim] | None:
    if len(shape) != len(repeats):
        return None
    return [_repeated(dim, times) for dim, times in zip(shape, repeats, strict=True)]


def _repeated(dim: Dim, times: Dim) -> Dim:
    if times == 1:
        return dim
    return dim * times if isinstance(dim, int) and isinstance(times, int) else None


def solve_reshape(shape: list[Dim] | None, target: list[Dim], allow_zero: bool) -> list[Dim] | None:
    """The dimensions that Reshape gives: zeros copied, -1 solved from the element count. None where it doesn't
    follow."""
    if shape is None:
        return None if -1 in target else list(target)
    result: list[Dim] = []
    for index, dim in enumerate(target):
        if dim == 0 and not allow_zero:
            if index >= len(shape):
                return None
            result.append(shape[index])
        else:
            result.append(dim)
    if -1 in result:
        rest = [d for d in result if d != -1]
        solved = _quotient(shape, rest)
        if solved is None:
            return None
        result[result.index(-1)] = solved
    return result


def _quotient(shape: list[Dim], divisor: list[Dim]) -> Dim:
    """The one dimension d with prod(shape) = d * prod(divisor), or None. A symbol times a number is a symbol, too."""
    if None in shape or None in divisor:
        return None
    symbols, above = _product(shape)
    others, below = _product(divisor)
    for symbol in others:
        if symbol not in symbols:
            return None
        symbols.remove(symbol)
    if below == 0 or above % below:
        return None
    factor = above // below
    if not symbols:
        return factor
    if len(symbols) > 1:
        return None
    return symbols[0] if factor == 1 else f"{symbols[0]}{_TIMES}{factor}"


def _product(dims: list[Dim]) -> tuple[list[str], int]:
    """The symbols that dimensions multiply to, and their factor."""
    symbols, factor = [], 1
    for dim in dims:
        if isinstance(dim, str):
            symbol, times, number = dim.rpartition(_TIMES)
            times = times if number.isdigit() else ""
            symbols.append(symbol if times else dim)
            factor *= int(number) if times else 1
        elif dim is not None:
            factor *= dim
    return symbols, factor


def _reshape(node: gs.Node, target: np.ndarray) -> list[int] | None:
    shape = node.inputs[0].shape
    dims = solve_reshape(
        list(shape) if shape is not None else None, list(target.ravel()), bool(node.attrs.get("allowzero", 0))
    )
    if dims is None or None in dims or 0 in dims:
        return None
    result: list[int] = []
    for index, dim in enumerate(dims):
        if isinstance(dim, int):
            result.append(dim)
        elif -1 not in result:
            result.append(-1)
        elif shape is not None and index < len(shape) and shape[index] == dim and not node.attrs.get("allowzero", 0):
            result.append(0)
        else:
            return None
    return result


def _expand(node: gs.Node, target: np.ndarray) -> list[int] | None:
    shape = node.inputs[0].shape
    if shape is None:
        return None
    aligned = [1] * (target.size - len(shape)) + list(shape)
    if len(aligned) > target.size:
        return None
    # Expand broadcasts both ways: 1 in the target keeps the input's own dimension
    result: list[int] = []
    for own, wanted in zip(aligned, target.ravel(), strict=True):
        if isinstance(wanted, int):
            result.append(wanted)
        elif wanted is not None and wanted == own:
            result.append(1)
        else:
            return None
    return result


def _only_known(node: gs.Node, target: np.ndarray) -> list[int] | None:
    return [int(d) for d in target.ravel()] if is_known(target) else None


_TIMES = "#*"
"""Between a symbol and its factor. No file has it: the number sign is for symbols of the passes' own."""
_SHAPE_TYPES = (np.dtype(np.int64), np.dtype(np.int32), np.dtype(bool))
_SOLUTIONS = {"Reshape": _solve_reshape, "Tile": _solve_tile}
_OPERANDS = {"Reshape": _reshape, "Expand": _expand, "Tile": _only_known}


def _constant(name: str, value: np.ndarray, dtype: np.dtype) -> gs.Constant | None:
    """A shape value as an initializer; None where the type can't hold it, as arithmetic in it would have wrapped."""
    try:
        return gs.Constant(name, np.array(value.tolist(), dtype))
    except OverflowError:
        return None
