"""PyTorch's two exporters, called quietly and with a dynamic batch axis."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal
from unittest import mock

import torch
from torch import Tensor, nn

from .unique_names import make_names_unique

Exporter = Literal["dynamo", "torchscript"]
EXPORTERS: tuple[Exporter, ...] = ("dynamo", "torchscript")
# The opsets that each exporter can write.
OPSETS = {"dynamo": range(18, 24), "torchscript": range(11, 21)}

BATCH = "batch"
# torch.__trace costs half of an export's time wherever a root logger listens.
_CHATTY = ("torch.onnx", "torch.export", "torch._dynamo", "torch.fx", "torch.__trace", "onnxscript", "onnx_ir")


def run_exporter(
    module: nn.Module,
    leaves: Sequence[Tensor],
    path: Path,
    *,
    exporter: Exporter,
    opset: int,
    input_names: Sequence[str],
    output_names: Sequence[str],
    batched_outputs: Sequence[str],
    external_data: bool,
    debug: bool,
) -> None:
    """Writes `module`, whose forward takes `leaves`, to `path`.

    With external data the weights go to files beside it (one, or one a weight). Raises whatever the exporter raises.
    """
    with contextlib.nullcontext() if debug else _quiet():
        if exporter == "dynamo":
            batch = torch.export.Dim(BATCH)
            program = torch.onnx.export(
                module,
                tuple(leaves),
                dynamo=True,
                dynamic_shapes=(tuple({0: batch} for _ in leaves),),
                input_names=list(input_names),
                output_names=list(output_names),
                opset_version=opset,
                verbose=debug,
            )
            assert program is not None
            make_names_unique(program.model)
            program.save(str(path), external_data=external_data)
        else:
            torch.onnx.export(
                module,
                tuple(leaves),
                str(path),
                dynamo=False,
                dynamic_axes={name: {0: BATCH} for name in (*input_names, *batched_outputs)},
                input_names=list(input_names),
                output_names=list(output_names),
                opset_version=opset,
                verbose=debug,
            )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _CHATTY]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            # The TorchScript exporter prints the whole graph on a failure, from C++, whatever `verbose` says.
            mock.patch.object(torch._C, "_jit_onnx_log", return_value=None, create=True),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
