"""The command that exports a model: a plain function for a typer application."""

from __future__ import annotations

import errno
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from ..models.cli import require_torch
from ..output_file import is_same_file, output_path

if TYPE_CHECKING:
    from torch import nn

    from ..models.base import CTRModel
    from ..models.schema import Layout
    from .arguments import Examples

_EXAMPLE_ROWS = 8


def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A checkpoint of dpiframe train, or FILE.py:FACTORY, whose function returns (module, example inputs).",
            show_default=False,
        ),
    ],
    output: Annotated[
        str | None,  # A Path forgets a slash at its end.
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The ONNX file; by default CHECKPOINT.onnx beside it, or FACTORY.onnx here.",
        ),
    ] = None,
    exporter: Annotated[
        Literal["dynamo", "torchscript"], typer.Option(help="Which of PyTorch's exporters.")
    ] = "dynamo",
    opset: Annotated[int, typer.Option(help="ONNX operator set.")] = 20,
    inputs: Annotated[
        Literal["matrix", "fields"] | None,
        typer.Option(help="A checkpoint's ids as one matrix or as one input a field; by default as trained."),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the exporter's output, and a traceback with errors.")
    ] = False,
) -> None:
    """Write a PyTorch model as an ONNX file, checked and compared with PyTorch."""
    require_torch()
    from ..models.base import CTRModel
    from .model import export_model

    module, examples, default = _load(source, inputs)
    target = output_path(output or default)
    if is_same_file(target, Path(source.rpartition(":")[0] or source)):
        raise ValueError(f"{target}: is the input itself; name another file with -o")
    input_names, output_names = None, None
    if isinstance(module, CTRModel):
        input_names, output_names = module.schema.input_names, module.output_names
    result = export_model(
        module,
        examples,
        target,
        exporter=exporter,
        opset=opset,
        input_names=input_names,
        output_names=output_names,
        debug=debug,
    )
    proof = "not compared with PyTorch (onnxruntime is not installed)"
    if result.max_abs_error is not None:
        batches = ", ".join(map(str, result.batches))
        proof = f"largest difference from PyTorch {result.max_abs_error:.2g} at batches {batches}"
    console = Console()
    console.print(
        f"wrote {result.path}: {result.nodes} nodes, {result.weight_bytes / 1e6:.1f} MB of weights"
        f"{f' in {result.external_data}' if result.external_data else ''}, opset {result.opset}; {proof}",
        soft_wrap=True,
        highlight=False,
    )


def _load(source: str, layout: Layout | None) -> tuple[nn.Module, Examples, Path]:
    """The module, its example inputs and the default output."""
    place, separator, factory = source.rpartition(":")
    if not separator:
        from ..models.checkpoint import load_checkpoint

        model = load_checkpoint(source, layout=layout).model
        return model, _examples(model), Path(source).with_suffix(".onnx")
    if layout is not None:
        raise ValueError("--inputs is for checkpoints; a factory's module takes what its example inputs are")
    module, examples = _from_factory(place, factory)
    return module, examples, Path(f"{factory}.onnx")


def _from_factory(place: str, name: str) -> tuple[nn.Module, Examples]:
    """Calls the function `name` of a file or an importable module.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it can't be imported, has no such function, or the function fails or returns something else.
    """
    from torch import nn

    from ..models.base import CTRModel

    code = _import(place)
    factory = getattr(code, name, None)
    if not callable(factory):
        raise ValueError(f"{place} has no function {name!r}")
    try:
        made = factory()
    except Exception as error:
        raise ValueError(f"{place}:{name} raised {type(error).__name__}: {' '.join(str(error).split())}") from error
    if isinstance(made, CTRModel):
        return made, _examples(made)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module)):
        raise ValueError(f"{place}:{name} returned a {type(made).__name__}; return (module, example inputs)")
    return made


def _import(place: str) -> ModuleType:
    path = Path(place)
    if path.suffix != ".py":
        try:
            return importlib.import_module(place)
        except ImportError as error:
            raise ValueError(f"{place}: neither a .py file nor an importable module: {error}") from error
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", place)
    name = f"_dpiframe_source_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    # As `python FILE.py` does, so that the file finds its neighbours.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = code
    try:
        spec.loader.exec_module(code)
    except Exception as error:
        raise ValueError(
            f"{place} can't be imported: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    finally:
        sys.path.pop(0)
    return code


def _examples(model: CTRModel) -> list[Any]:
    """Example inputs of a model of the registry."""
    import torch

    return model.schema.model_inputs(*map(torch.from_numpy, model.schema.random_batch(_EXAMPLE_ROWS)))
