"""The implicit branch of nearly every model: fully connected layers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

HIDDEN = (256, 256, 256)


def mlp(width: int, hidden: Sequence[int], *, dropout: float = 0.0, output: int | None = None) -> nn.Sequential:
    """Linear + ReLU (+ dropout) for each hidden width, [B, width] -> [B, hidden[-1]].

    Args:
        width: of the input.
        hidden: widths of the hidden layers.
        dropout: probability of dropping a hidden value while training; 0 leaves the layer out.
        output: width of one more Linear without an activation; None leaves it out.
    """
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = size
    if output is not None:
        layers.append(nn.Linear(width, output))
    return nn.Sequential(*layers)
