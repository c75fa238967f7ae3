"""`export_model`: a module in, a checked and compared ONNX file out, or a reason why not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..output_file import StagedOutput, check_place, output_path
from .arguments import Arguments, Examples, take_apart, with_flat_forward
from .compare import compare
from .errors import ExportError, explain, one_line
from .exporters import EXPORTERS, OPSETS, Exporter, run_exporter
from .finish import finish

# Weights beyond this lie in a file of their own; protobuf ends at 2 GB.
EXTERNAL_DATA_BYTES = 1_000_000_000


@dataclass(frozen=True)
class ExportResult:
    """What was written.

    Attributes:
        path: the ONNX file.
        external_data: the file beside it with the weights; None where they are inside.
        exporter, opset, ir_version: how it was written.
        inputs, outputs: names in order.
        nodes: nodes of the graph.
        weight_bytes: size of all parameters and buffers.
        max_abs_error: the largest difference from PyTorch; None where ONNX Runtime isn't installed.
        batches: the batch sizes at which it was compared.
        seconds: wall-clock time.
    """

    path: Path
    external_data: Path | None
    exporter: Exporter
    opset: int
    ir_version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: int
    weight_bytes: int
    max_abs_error: float | None
    batches: tuple[int, ...]
    seconds: float


def export_model(
    module: nn.Module,
    example_inputs: Examples,
    path: str | Path,
    *,
    exporter: Exporter = "dynamo",
    opset: int = 20,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    debug: bool = False,
) -> ExportResult:
    """Writes a module as an ONNX file with a dynamic batch.

    The module is exported in evaluation mode; it and all its parts are left in the mode in which they came. The file is
    checked in full (onnx.checker) and, with ONNX Runtime installed, compared with the module on the example and at
    other batch sizes; only then does it take its name. Weights of more than 1 GB go to `<path>.data` beside it.

    Args:
        module: any PyTorch module.
        example_inputs: a tensor, a sequence of positional arguments, or a mapping of keyword arguments; arguments may
            be lists and dicts of tensors. Axis 0 of every tensor is the batch. Ids must be valid ones.
        path: the file to write; an existing one is replaced.
        exporter: "dynamo" (torch.export) or "torchscript" (tracing).
        opset: ONNX operator set, 18 to 23 for dynamo, 11 to 20 for torchscript.
        input_names: one for each tensor; by default the names of forward's parameters.
        output_names: one for each tensor; by default "output", or "output_0", "output_1", ...; "model_output" where an
            input is called so.
        debug: let the exporters print what they have to say.

    Raises:
        ExportError: the model can't be exported, or the file doesn't give its answers; one line that says what to
            change.
        ValueError: an unknown exporter, an opset that it can't write, or names that don't fit the inputs and outputs.
        UsageError: no file can be put at the path, or where the weights go beside it: there is a folder, device, pipe
            or socket, or no folder to put it in.
    """
    begin = time.monotonic()
    target = output_path(path)
    _check_options(module, target, exporter, opset)
    arguments = take_apart(module, example_inputs)
    arguments = Arguments(arguments.leaves, _check_names("input", input_names, arguments.names), arguments.structure)
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        flat = with_flat_forward(module, arguments.structure)
        outputs = _run(flat, arguments)
        output_names = _check_names("output", output_names, _default_outputs(len(outputs), arguments.names))
        if shared := set(arguments.names).intersection(output_names):
            raise ValueError(f"{', '.join(sorted(shared))} can't name both an input and an output")
        batched = [
            name
            for name, value in zip(output_names, outputs, strict=True)
            if value.ndim and value.shape[0] == arguments.rows
        ]
        weight_bytes = _weight_bytes(module)
        external = weight_bytes > EXTERNAL_DATA_BYTES
        if external:
            check_place(target.with_name(f"{target.name}.data"))
        with StagedOutput(target, own_folder=True) as staged:
            try:
                run_exporter(
                    flat,
                    # A batch of one would be taken for a constant.
                    arguments.batch(max(2, arguments.rows)),
                    staged.path,
                    exporter=exporter,
                    opset=opset,
                    input_names=arguments.names,
                    output_names=output_names,
                    batched_outputs=batched,
                    external_data=external,
                    debug=debug,
                )
            except Exception as error:
                raise explain(error, exporter) from error
            model = finish(staged.path, arguments, external_data=external)
            compared = compare(flat, arguments, staged.path)
            data = staged.path.with_name(f"{target.name}.data")
            has_data = data.exists()
            staged.publish([data.name] if has_data else [])
    finally:
        for part, training in modes:
            part.training = training
    return ExportResult(
        path=target,
        external_data=target.with_name(data.name) if has_data else None,
        exporter=exporter,
        opset=next(item.version for item in model.opset_import if item.domain in ("", "ai.onnx")),
        ir_version=model.ir_version,
        inputs=tuple(value.name for value in model.graph.input),
        outputs=tuple(value.name for value in model.graph.output),
        nodes=len(model.graph.node),
        weight_bytes=weight_bytes,
        max_abs_error=compared[0] if compared else None,
        batches=compared[1] if compared else (),
        seconds=time.monotonic() - begin,
    )


def _check_options(module: nn.Module, target: Path, exporter: str, opset: int) -> None:
    if exporter not in EXPORTERS:
        raise ValueError(f"exporter is {exporter!r}; choose {' or '.join(EXPORTERS)}")
    if opset not in OPSETS[exporter]:
        known = OPSETS[exporter]
        raise ValueError(f"opset is {opset}; the {exporter} exporter writes {known[0]} to {known[-1]}")
    if not isinstance(module, nn.Module):
        raise ExportError(f"a {type(module).__name__} is no torch.nn.Module")
    if isinstance(module, torch.jit.ScriptModule):
        raise ExportError("a scripted module can't be exported; give the nn.Module that it was made from")
    if hasattr(module, "_orig_mod"):
        raise ExportError("a module that torch.compile made can't be exported; give the one that it was made from")
    if "forward" in vars(module):
        raise ExportError("the module's forward is an attribute of the instance; give a module whose class has it")
    check_place(target)


def _check_names(kind: str, names: Sequence[str] | None, default: list[str]) -> list[str]:
    if names is None:
        return default
    if len(names) != len(default):
        raise ValueError(f"{len(names)} {kind} names ({', '.join(names)}), but the model has {len(default)} {kind}s")
    if len(set(names)) != len(names):
        raise ValueError(f"{kind} names {', '.join(names)} name one twice")
    return list(names)


def _default_outputs(count: int, inputs: Sequence[str]) -> list[str]:
    stem = "output"
    while True:
        names = [stem] if count == 1 else [f"{stem}_{index}" for index in range(count)]
        if not set(names).intersection(inputs):
            return names
        stem = f"model_{stem}"


def _run(flat: nn.Module, arguments: Arguments) -> list[Tensor]:
    try:
        with torch.no_grad():
            outputs = pytree.tree_leaves(flat(*arguments.leaves))
    except Exception as error:
        raise ExportError(f"the model itself fails on the example inputs: {one_line(str(error))}") from error
    if not outputs or not all(isinstance(value, Tensor) for value in outputs):
        raise ExportError("the model must return a tensor, or a list, tuple or dict of tensors")
    return outputs


def _weight_bytes(module: nn.Module) -> int:
    """Parameters and buffers, each storage counted once."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in (*module.parameters(), *module.buffers())
    }
    return sum(storages.values())
