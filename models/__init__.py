"""Reference CTR models in PyTorch, their data and their training.

Each name is imported when it is first used: schema, metrics and data readers need no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import CTRModel
    from .checkpoint import Checkpoint, load_checkpoint, save_checkpoint
    from .embedding import FieldEmbedding
    from .metrics import auc, log_loss
    from .registry import create, names
    from .schema import FeatureSchema, MultiHotField, SequenceField, SparseField
    from .training import TrainResult, predict, train

_HOMES = {
    "CTRModel": "base",
    "Checkpoint": "checkpoint",
    "FeatureSchema": "schema",
    "FieldEmbedding": "embedding",
    "MultiHotField": "schema",
    "SequenceField": "schema",
    "SparseField": "schema",
    "TrainResult": "training",
    "auc": "metrics",
    "create": "registry",
    "load_checkpoint": "checkpoint",
    "log_loss": "metrics",
    "names": "registry",
    "predict": "training",
    "save_checkpoint": "checkpoint",
    "train": "training",
}

__all__ = [
    "CTRModel",
    "Checkpoint",
    "FeatureSchema",
    "FieldEmbedding",
    "MultiHotField",
    "SequenceField",
    "SparseField",
    "TrainResult",
    "auc",
    "create",
    "load_checkpoint",
    "log_loss",
    "names",
    "predict",
    "save_checkpoint",
    "train",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
