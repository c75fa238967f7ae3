"""The models by name. Knows where each lives without importing PyTorch."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from .schema import FeatureSchema

if TYPE_CHECKING:
    from .base import CTRModel

_CLASSES = {
    "dcn": ("dcn", "DCN"),
    "dcnv2": ("dcnv2", "DCNv2"),
    "dcnv2_mix": ("dcnv2", "DCNv2Mix"),
    "deepfm": ("deepfm", "DeepFM"),
    "din": ("din", "DIN"),
    "dlrm": ("dlrm", "DLRM"),
    "mmoe": ("mmoe", "MMoE"),
    "wide_deep": ("wide_deep", "WideDeep"),
}


def names() -> list[str]:
    """The names that `create` knows, sorted."""
    return sorted(_CLASSES)


def create(name: str, schema: FeatureSchema, **hyper: Any) -> CTRModel:
    """Builds a model with fresh weights (seed with torch.manual_seed).

    Args:
        name: one of `names()`, in any case.
        schema: its fields.
        hyper: the model's own hyperparameters; its class docstring lists them.

    Raises:
        ValueError: an unknown name or hyperparameter, or a schema that the model can't take.
    """
    key = name.lower()
    if key not in _CLASSES:
        raise ValueError(f"unknown model {name!r}; choose one of {', '.join(names())}")
    module, attribute = _CLASSES[key]
    kind = getattr(importlib.import_module(f".{module}", __package__), attribute)
    known = [parameter for parameter in inspect.signature(kind).parameters if parameter != "schema"]
    for given in hyper:
        if given not in known:
            raise ValueError(f"{attribute} has no hyperparameter {given!r}; it has {', '.join(known)}")
    model: CTRModel = kind(schema, **hyper)
    model.name, model.hyper = key, hyper
    return model
