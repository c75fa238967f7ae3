"""A trained model as one file."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..output_file import StagedOutput, check_place, output_path
from .base import CTRModel
from .data.encoding import Encoder
from .registry import create
from .schema import FeatureSchema, Layout

_FORMAT = "dpiframe.checkpoint.1"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    Attributes:
        model: in evaluation mode.
        encoder: how category strings became ids; None where the data came as ids.
        metrics: figures of the training run, by name.
    """

    model: CTRModel
    encoder: Encoder | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


def save_checkpoint(path: str | Path, checkpoint: Checkpoint) -> None:
    """Writes the model's name, hyperparameters, schema and weights, the encoder and the metrics; all or nothing.

    Args:
        path: the file, by custom `.pt`.
        checkpoint: its model comes from `models.create`.

    Raises:
        ValueError: a model that wasn't made by `models.create`.
        UsageError: a path at which no file can be put.
    """
    target = output_path(path)
    check_place(target)
    model = checkpoint.model
    if not model.name:
        raise ValueError("only a model made by models.create can be saved; it has no name in the registry")
    content = {
        "format": _FORMAT,
        "model": model.name,
        "hyper": dict(model.hyper),
        "schema": model.schema.to_dict(),
        "weights": model.state_dict(),
        "encoder": checkpoint.encoder.to_dict() if checkpoint.encoder else None,
        "metrics": dict(checkpoint.metrics),
    }
    with StagedOutput(target, own_folder=False) as staged:
        torch.save(content, staged.path)
        staged.publish([])


def load_checkpoint(path: str | Path, *, layout: Layout | None = None) -> Checkpoint:
    """Reads what `save_checkpoint` wrote. Nothing in the file is executed.

    Args:
        path: the file.
        layout: how the model's inputs arrive, in place of the layout in which it was trained.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file that is no checkpoint of this package.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(file))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises errors of pickle, zip and its own.
        raise ValueError(f"{file}: not a checkpoint; give a file that dpiframe train wrote") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{file}: not a checkpoint of this version; give a file that dpiframe train wrote")
    try:
        schema = FeatureSchema.from_dict(content["schema"])
        model = create(content["model"], schema.with_layout(layout) if layout else schema, **content["hyper"])
        model.load_state_dict(content["weights"])
        encoder = Encoder.from_dict(content["encoder"]) if content["encoder"] else None
        return Checkpoint(model.eval(), encoder, content["metrics"])
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{file}: a damaged checkpoint: {' '.join(str(error).split())}") from error
