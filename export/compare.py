"""The exported file against the module, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ..compare import FLOAT16_BOUND
from .arguments import Arguments
from .errors import ExportError, one_line

TOLERANCE = 1e-5
# Batch sizes besides the example's own: the smallest, an odd and a larger one.
BATCHES = (1, 7, 64)


def array_of(tensor: torch.Tensor, what: str) -> np.ndarray:
    """A tensor's values.

    Raises:
        ExportError: it is of a type that NumPy lacks, and can't be compared.
    """
    try:
        return tensor.detach().cpu().numpy()
    except TypeError:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise ExportError(
            f"{what} is of type {kind}, which NumPy lacks, and can't be compared; cast it in a wrapping module"
        ) from None


def compare(module: nn.Module, arguments: Arguments, path: Path) -> tuple[float, tuple[int, ...]] | None:
    """Runs both at several batch sizes on the example's rows.

    Args:
        module: with the flat forward.
        arguments: the example.
        path: the exported file; external data beside it.

    Returns:
        The largest absolute difference and the batch sizes compared; None where ONNX Runtime isn't installed. Batch
        sizes at which the module itself fails are left out.

    Raises:
        ExportError: ONNX Runtime can't load or run the file, or an output differs by more than 1e-5 * max(1, max|y|)
            (2e-3 of float16 outputs) or in shape; or an input or output is of a type that NumPy lacks.
    """
    if find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base below this.
        raise ExportError(f"ONNX Runtime can't load the exported model: {one_line(str(error))}") from error
    names = [value.name for value in session.get_inputs()]
    worst, compared = 0.0, []
    for rows in (arguments.rows, *(size for size in BATCHES if size != arguments.rows)):
        leaves = arguments.batch(rows)
        try:
            with torch.no_grad():
                outputs = module(*leaves)
        except Exception as error:
            if rows == arguments.rows:
                raise ExportError(f"the model itself fails when it is run again: {one_line(str(error))}") from error
            continue  # Other batches are only more evidence.
        expected = [array_of(value, f"output {index}") for index, value in enumerate(outputs)]
        feed = {name: array_of(leaf, f"input {name!r}") for name, leaf in zip(arguments.names, leaves, strict=True)}
        try:
            actual = session.run(None, {name: feed[name] for name in names})
        except Exception as error:
            raise ExportError(
                f"the exported model fails at batch {rows} (the example has {arguments.rows}): {one_line(str(error))}; "
                "where the model's forward turns a shape into a number, write x.shape[0] or -1"
            ) from error
        worst = max(worst, _difference(expected, actual, rows, arguments.rows))
        compared.append(rows)
    return worst, tuple(compared)


def _difference(expected: Sequence[np.ndarray], actual: Sequence[np.ndarray], rows: int, example: int) -> float:
    worst = 0.0
    for index, (want, got) in enumerate(zip(expected, actual, strict=True)):
        where = f"output {index} at batch {rows} (the example has {example})"
        if want.shape != got.shape:
            raise ExportError(f"{where} has shape {list(got.shape)}, PyTorch gives {list(want.shape)}")
        if not want.size:
            continue
        if want.dtype.kind != "f":
            if not np.array_equal(want, got):
                raise ExportError(f"{where} differs from PyTorch")
            continue
        left, right = want.astype(np.float64), got.astype(np.float64)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        with np.errstate(invalid="ignore"):
            error = float(np.where(same, 0.0, np.abs(left - right)).max())
        tolerance = FLOAT16_BOUND if want.dtype == np.float16 else TOLERANCE
        bound = tolerance * max(1.0, float(np.abs(left[np.isfinite(left)]).max(initial=0.0)))
        if not error <= bound:
            raise ExportError(
                f"{where} differs from PyTorch by {error:.3g}, more than {bound:.3g}; does the model depend on "
                "randomness or on the batch size?"
            )
        worst = max(worst, error)
    return worst
