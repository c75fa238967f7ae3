"""A module's example inputs as a flat list of tensors with names, whatever its forward takes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .errors import ExportError

Examples = Tensor | Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class Arguments:
    """Example inputs, taken apart.

    Attributes:
        leaves: the tensors, in order.
        names: one a tensor.
        structure: puts the tensors back into positional and keyword arguments.
    """

    leaves: list[Tensor]
    names: list[str]
    structure: pytree.TreeSpec

    @property
    def rows(self) -> int:
        """The example's batch size."""
        return self.leaves[0].shape[0]

    def batch(self, rows: int) -> list[Tensor]:
        """Other inputs of the same kind: the example's rows, repeated or cut to `rows`, so that ids stay valid."""
        pick = torch.arange(rows) % self.rows
        return [leaf.index_select(0, pick.to(leaf.device)) for leaf in self.leaves]


def take_apart(module: nn.Module, examples: Examples) -> Arguments:
    """Flattens example inputs: a tensor, a sequence of positional arguments or a mapping of keyword arguments.

    Arguments may themselves be lists, tuples and dicts of tensors.

    Raises:
        ExportError: something that is no tensor, or tensors that disagree about the number of rows.
    """
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(examples, Mapping):
        kwargs = dict(examples)
    else:
        args = (examples,) if isinstance(examples, Tensor) else tuple(examples)
    leaves, structure = pytree.tree_flatten((args, kwargs))
    names = _names(module, len(leaves), structure)
    if not leaves:
        raise ExportError("no example inputs; give one tensor for each input of the model")
    for name, leaf in zip(names, leaves, strict=True):
        if not isinstance(leaf, Tensor):
            raise ExportError(
                f"example input {name!r} is a {type(leaf).__name__}; every input must be a tensor "
                "(bind other arguments before the export, with functools.partial or a wrapping module)"
            )
        if not leaf.ndim:
            raise ExportError(f"example input {name!r} has no axes; axis 0 of every input must be the batch")
    rows = {name: leaf.shape[0] for name, leaf in zip(names, leaves, strict=True)}
    if len(set(rows.values())) > 1 or 0 in rows.values():
        listed = ", ".join(f"{name} {count}" for name, count in rows.items())
        raise ExportError(f"axis 0 of every input must be the same batch of one row or more; the example has {listed}")
    return Arguments(leaves, names, structure)


def with_flat_forward(module: nn.Module, structure: pytree.TreeSpec) -> nn.Module:
    """The module with a forward that takes the tensors of `Arguments.leaves` and returns a tuple of tensors.

    A copy that shares all weights, of a class derived from the module's own: unlike in a wrapping module, parameters
    keep their names in the exported file.
    """
    kind = type(module)

    def forward(self: nn.Module, *leaves: Tensor) -> tuple[Any, ...]:
        args, kwargs = pytree.tree_unflatten(list(leaves), structure)
        return tuple(pytree.tree_leaves(kind.forward(self, *args, **kwargs)))

    flat = copy.copy(module)
    flat.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    return flat


def _names(module: nn.Module, count: int, structure: pytree.TreeSpec) -> list[str]:
    """A parameter's name for a tensor; name_key or name_0, name_1, ... for tensors inside of one."""
    # Numbers in the tensors' places: one tensor may be given for several inputs.
    args, kwargs = pytree.tree_unflatten(list(range(count)), structure)
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError as error:
        raise ExportError(f"the example inputs don't fit the model's forward: {error}") from error
    found: dict[int, str] = {}
    for name, value in bound.items():
        for path, index in pytree.tree_flatten_with_path(value)[0]:
            found[index] = "_".join([name, *(str(_key(part)) for part in path)])
    names: list[str] = []
    for index in range(count):
        names.append(f"{found[index]}_{index}" if found[index] in names else found[index])
    return names


def _key(part: Any) -> Any:
    return part.key if hasattr(part, "key") else part.idx
