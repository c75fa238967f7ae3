"""Put model-local functions into the graph, where the passes see what is in them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx.inliner import inline_selected_functions

from dpiframe.graph_passes.functions import DOMAIN, calls, pool_names
from dpiframe.graph_passes.graph_writer import copy_fields
from dpiframe.graph_passes.graphs import STANDARD_DOMAINS


def inline_lookup_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every function that holds a Gather, itself or through functions it calls, inlined. Ours stay.

    So do functions that are written for another operator set in which one of their operators means something else.
    """
    opset = {entry.domain: entry.version for entry in model.opset_import}
    fitting = [f for f in model.functions if f.domain != DOMAIN and _fits(f, opset)]
    chosen = _with_callers(fitting, {_key(f) for f in fitting if _holds_gather(f)})
    return _inlined(model, fitting, chosen)


def inline_our_functions(model: onnx.ModelProto, *, leaving: str | None = None) -> onnx.ModelProto:
    """The model with the standard nodes of every op of ours in its place.

    leaving: an op that stays as it is, also where it is called in another op's body, as in a ParallelRegion's.
    """
    ours = [function for function in model.functions if function.domain == DOMAIN]
    kept = pool_names(leaving) if leaving is not None else []
    return _inlined(model, ours, {_key(function) for function in ours if function.name not in kept})


def _inlined(
    model: onnx.ModelProto, functions: Iterable[onnx.FunctionProto], chosen: set[tuple[str, str]]
) -> onnx.ModelProto:
    """functions: those that the inliner may see. chosen: those of them that it takes apart."""
    if not chosen:
        return model
    # the inliner gets neither tables, which it would copy, nor functions that it refuses
    light = onnx.ModelProto()
    copy_fields(model, light, leaving=("graph", "functions"))
    copy_fields(model.graph, light.graph, leaving=("initializer",))
    light.graph.initializer.extend(
        onnx.TensorProto(name=t.name, data_type=1, dims=[0]) for t in model.graph.initializer
    )
    light.functions.extend(functions)
    for function in light.functions:
        _take_over_opset(function, light)
    inlined = inline_selected_functions(light, sorted(chosen))
    del inlined.graph.initializer[:]
    inlined.graph.initializer.extend(model.graph.initializer)
    kept = [f for f in model.functions if _key(f) not in chosen]
    del inlined.functions[:]
    inlined.functions.extend(kept)
    return inlined


def _key(function: onnx.FunctionProto) -> tuple[str, str]:
    return function.domain, function.name


def _with_callers(functions: Iterable[onnx.FunctionProto], chosen: set[tuple[str, str]]) -> set[tuple[str, str]]:
    called = [(_key(f), set(calls(f.node))) for f in functions]
    while True:
        callers = {key for key, others in called if others & chosen} - chosen
        if not callers:
            return chosen
        chosen |= callers


def _holds_gather(function: onnx.FunctionProto) -> bool:
    return any(op == "Gather" and domain in STANDARD_DOMAINS for domain, op in calls(function.node))


def _fits(function: onnx.FunctionProto, opset: dict[str, int]) -> bool:
    """Every operator of the function means the same under the model's operator sets as under its own."""
    own = {entry.domain: entry.version for entry in function.opset_import}
    differing = {domain for domain, version in own.items() if opset.get(domain, version) != version}
    return all(
        domain not in differing or _since(domain, op, own[domain]) == _since(domain, op, opset[domain])
        for domain, op in calls(function.node)
    )


def _since(domain: str, op: str, version: int) -> object:
    try:
        return onnx.defs.get_schema(op, version, domain).since_version
    except onnx.defs.SchemaError:
        return version


def _take_over_opset(function: onnx.FunctionProto, model: onnx.ModelProto) -> None:
    """Let the function be of the model's operator sets, and the model have those that only the function names."""
    known = {entry.domain: entry.version for entry in model.opset_import}
    for entry in function.opset_import:
        if entry.domain in known:
            entry.version = known[entry.domain]
        else:
            model.opset_import.add(domain=entry.domain, version=entry.version)
