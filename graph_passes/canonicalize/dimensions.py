"""One symbol for what must be one size: batch axes that an exporter left unnamed, or named apart for each input."""

from __future__ import annotations

from dpiframe.graph_passes.graphs import is_standard
from dpiframe.graph_passes.workbench import Workbench


def unify_dimensions(bench: Workbench, changes: list[str]) -> bool:
    """Give input dimensions that a join needs to be equal the symbol of the first of them.

    Concat takes only inputs whose other dimensions are equal, so where one has `C1_axis_0` and another `C2_axis_0`,
    every run that succeeds has them equal. Only joins of the main graph count, as a branch may not run.
    """
    named = _name_unnamed(bench)
    order = {dim: None for tensor in bench.graph.inputs for dim in tensor.shape or () if isinstance(dim, str)}
    leader: dict[str, str] = {symbol: symbol for symbol in order}
    rank = {symbol: index for index, symbol in enumerate(order)}

    def find(symbol: str) -> str:
        while leader[symbol] != symbol:
            symbol = leader[symbol] = leader[leader[symbol]]
        return symbol

    for node in bench.graph.nodes:
        if node.op != "Concat" or not is_standard(node):
            continue
        shapes = [tensor.shape for tensor in node.inputs]
        if any(shape is None or len(shape) != len(shapes[0]) for shape in shapes):
            continue
        joined = node.attrs["axis"] % len(shapes[0])
        for axis, dims in enumerate(zip(*shapes, strict=True)):
            symbols = [find(dim) for dim in dict.fromkeys(dims) if dim in leader]
            if axis != joined and symbols:
                first = min(symbols, key=rank.__getitem__)
                leader.update((symbol, first) for symbol in symbols)
    renamed = {symbol for symbol in order if find(symbol) != symbol}
    for tensor in bench.graph.inputs:
        if tensor.shape is not None:
            tensor.shape = [find(dim) if dim in renamed else dim for dim in tensor.shape]
    if renamed:
        changes.append(f"{len(renamed)} input dimensions equal others, as joins show")
    return named or bool(renamed)


def _name_unnamed(bench: Workbench) -> bool:
    found = False
    for tensor in bench.graph.inputs:
        if tensor.shape is not None and None in tensor.shape:
            tensor.shape = [f"{tensor.name}#{axis}" if dim is None else dim for axis, dim in enumerate(tensor.shape)]
            found = True
    return found
