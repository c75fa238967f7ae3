"""A few third-party models in the corpus's layout, for places that lack it: made from the libraries that are
installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
BATCHES = (1, 7, 256)
FIELDS, DENSE, ROWS, DIM = 6, 3, 40, 8
HIDDEN = (32, 16)


def columns(batch: int) -> Arrays:
    """An input of its own for each id and each dense value."""
    rng = np.random.default_rng(batch)
    ids = {f"C{k}": rng.integers(0, ROWS + k, batch) for k in range(FIELDS)}
    return ids | {f"I{k}": rng.random(batch, dtype=np.float32) for k in range(DENSE)}


def matrix(batch: int) -> Arrays:
    """The ids as the columns of one matrix."""
    return {"ids": np.stack([columns(batch)[f"C{k}"] for k in range(FIELDS)], axis=1)}


def by_name(model: Any) -> Any:
    """A model that takes its features by name, as a module of positional arguments."""
    import torch

    class ByName(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.core = model

        def forward(self, *features: torch.Tensor) -> torch.Tensor:
            return self.core(dict(zip(columns(1), features, strict=True)))

    return ByName()


def torchfm(name: str) -> tuple[Any, Callable[[int], Arrays]]:
    from torchfm.model.dcn import DeepCrossNetworkModel
    from torchfm.model.dfm import DeepFactorizationMachineModel

    sizes = [ROWS + k for k in range(FIELDS)]
    if name == "DCN":
        return DeepCrossNetworkModel(sizes, DIM, num_layers=2, mlp_dims=HIDDEN, dropout=0), matrix
    return DeepFactorizationMachineModel(sizes, DIM, mlp_dims=HIDDEN, dropout=0), matrix


def rechub(name: str) -> tuple[Any, Callable[[int], Arrays]]:
    from torch_rechub.basic.features import DenseFeature, SparseFeature
    from torch_rechub.models import ranking

    ids = [SparseFeature(f"C{k}", vocab_size=ROWS + k, embed_dim=DIM) for k in range(FIELDS)]
    dense = [DenseFeature(f"I{k}") for k in range(DENSE)]
    layers = {"dims": list(HIDDEN), "dropout": 0, "activation": "relu"}
    if name == "DCN":
        return by_name(ranking.DCN([*dense, *ids], n_cross_layers=2, mlp_params=layers)), columns
    return by_name(ranking.WideDeep(dense, ids, mlp_params=layers)), columns


LIBRARIES: dict[str, tuple[Callable[[str], tuple[Any, Callable[[int], Arrays]]], Sequence[str]]] = {
    "torchfm": (torchfm, ("DeepFM", "DCN")),
    "torch_rechub": (rechub, ("WideDeep", "DCN")),
}
NAMES = [
    f"{library}__{model}__{exporter}"
    for library, (_, models) in LIBRARIES.items()
    for model, exporter in product(models, ("dynamo", "torchscript"))
]


def missing(name: str) -> str | None:
    """The library that a model of the set would need and that isn't installed."""
    needed = ("torch", "onnxscript", name.split("__")[0])
    return next((library for library in needed if find_spec(library) is None), None)


def build(name: str, folder: Path) -> Path:
    """Write the model, inputs, and PyTorch's answers to them."""
    import torch

    from dpiframe.export import export_model

    library, model, exporter = name.split("__")
    torch.manual_seed(0)
    module, inputs = LIBRARIES[library][0](model)
    module.eval()
    example = [torch.from_numpy(value) for value in inputs(5).values()]
    export_model(module, example, folder / "model.onnx", exporter=exporter, input_names=list(inputs(1)))
    for batch in BATCHES:
        given = inputs(batch)
        with torch.no_grad():
            answer = module(*(torch.from_numpy(value) for value in given.values()))
        np.savez(folder / f"inputs_{batch}.npz", **given)
        np.savez(folder / f"outputs_{batch}.npz", output=answer.numpy())
    return folder
