"""Hazard: an input or output that is called as the exporter calls another value of the graph."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

from dpiframe.export import export_model
from dpiframe.export.exporters import Exporter

BOTH = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])


class Tables(nn.Module):
    """Two of everything that an exporter names after its operator."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Embedding(9, 4)
        self.b = nn.Embedding(9, 4)

    def forward(self, item: Tensor, cat: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([self.a(item), self.b(cat)], dim=-1)
        more = torch.cat([both * both + 1, both + 2], dim=-1)
        return torch.relu(more) * 3, torch.relu(both).sum(dim=1, keepdim=True)


def example() -> tuple[Tensor, Tensor]:
    return torch.tensor([1, 2, 5]), torch.tensor([7, 0, 3])


def names_in(path: Path) -> tuple[list[str], list[str]]:
    graph = onnx.load(path).graph
    return [value.name for value in graph.input], [value.name for value in graph.output]


@BOTH
def test_a_parameter_called_as_an_operator(exporter: Exporter, tmp_path: Path) -> None:
    item, cat = example()
    export_model(Tables(), {"item": item, "cat": cat}, tmp_path / "m.onnx", exporter=exporter)
    assert names_in(tmp_path / "m.onnx") == (["item", "cat"], ["output_0", "output_1"])


@BOTH
@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (["cat", "cat_1"], ["embedding", "embedding_1"]),
        (["embedding_1", "mul"], ["cat", "relu"]),
        (["add", "val_0"], ["leaves_0", "leaves_1"]),
        (["a.weight", "relu"], ["b.weight", "val_1"]),
        (["b.weight", "a.weight"], ["node_cat", "batch"]),
    ],
)
def test_names_that_the_exporter_gives_to_other_values(
    exporter: Exporter, inputs: list[str], outputs: list[str], tmp_path: Path
) -> None:
    # export_model compares the answers with the module's.
    result = export_model(
        Tables(), example(), tmp_path / "m.onnx", exporter=exporter, input_names=inputs, output_names=outputs
    )
    assert (list(result.inputs), list(result.outputs)) == names_in(tmp_path / "m.onnx") == (inputs, outputs)
    assert result.max_abs_error is not None


def test_only_the_weight_that_is_called_as_an_input_gets_another_name(tmp_path: Path) -> None:
    export_model(Tables(), example(), tmp_path / "m.onnx", input_names=["a.weight", "cat"])
    weights = {tensor.name for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer if len(tensor.dims) == 2}
    assert weights == {"a.weight_1", "b.weight"}


def test_an_input_called_as_the_default_output(tmp_path: Path) -> None:
    class Doubled(nn.Module):
        def forward(self, output: Tensor) -> Tensor:
            return output * 2

    export_model(Doubled(), torch.ones(3, 2), tmp_path / "m.onnx", exporter="torchscript")
    assert names_in(tmp_path / "m.onnx") == (["output"], ["model_output"])


def test_one_name_for_an_input_and_an_output(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^click can't name both an input and an output$"):
        export_model(
            Tables(), example(), tmp_path / "m.onnx", input_names=["click", "b"], output_names=["rank", "click"]
        )
    assert not list(tmp_path.iterdir())


def test_one_tensor_for_two_inputs(tmp_path: Path) -> None:
    """The names are those of the places that it is given for."""
    same = torch.tensor([1, 2, 5])
    export_model(Tables(), {"cat": same, "item": same}, tmp_path / "m.onnx", exporter="torchscript")
    assert names_in(tmp_path / "m.onnx")[0] == ["cat", "item"]
    export_model(Tables(), (same, same), tmp_path / "m.onnx", exporter="torchscript")
    assert names_in(tmp_path / "m.onnx")[0] == ["item", "cat"]
