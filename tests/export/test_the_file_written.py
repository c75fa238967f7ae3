"""The file: dynamic batch, an IR version for older runtimes, data beside it when large, names as in the module."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from dpiframe.export import export_model
from dpiframe.export import model as model_module
from dpiframe.export.exporters import Exporter
from tests.export import toys

BOTH = pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])


def run(path: Path, rows: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = dict(zip(("ids", "dense"), (value.numpy() for value in toys.example(rows)), strict=True))
    answers: np.ndarray = session.run(None, feed)[0]
    return answers


@BOTH
def test_an_ordinary_export(exporter: Exporter, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    module = toys.Lookup().train()
    module.head.eval()
    levels = [logging.getLogger(name).level for name in ("torch.onnx", "onnxscript")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = export_model(module, toys.example(), tmp_path / "m.onnx", exporter=exporter)
    assert capfd.readouterr() == ("", "")
    assert [logging.getLogger(name).level for name in ("torch.onnx", "onnxscript")] == levels
    assert module.training
    assert module.user.training
    assert not module.head.training
    assert list(tmp_path.iterdir()) == [tmp_path / "m.onnx"] == [result.path]
    assert result.external_data is None
    assert (result.inputs, result.outputs) == (("ids", "dense"), ("output",))
    assert result.opset == 20
    assert result.ir_version <= 10
    assert result.weight_bytes == 4 * (2 * 20 * 4 + 11 + 1)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == result.ir_version
    assert len(model.graph.node) == result.nodes
    names = {tensor.name for tensor in model.graph.initializer}
    assert {"user.weight", "item.weight", "head.bias"} <= names
    assert not [entry for node in model.graph.node for entry in node.metadata_props if "stack_trace" in entry.key]
    np.testing.assert_allclose(run(tmp_path / "m.onnx", 33), module(*toys.example(33)).detach().numpy(), atol=1e-6)


class UsesTwoOfFour(nn.Module):
    def forward(self, flag: torch.Tensor, ids: torch.Tensor, note: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        return dense + ids.float()


@BOTH
def test_an_input_without_use_stays_in_its_place(exporter: Exporter, tmp_path: Path) -> None:
    """Whoever feeds the file feeds what the module takes, whichever exporter wrote it."""
    example = {
        "flag": torch.zeros(4, dtype=torch.bool),
        "ids": torch.ones(4, 3, dtype=torch.int32),
        "note": torch.zeros(4, 2, 5, dtype=torch.float16),
        "dense": torch.rand(4, 3),
    }
    result = export_model(UsesTwoOfFour(), example, tmp_path / "m.onnx", exporter=exporter)
    assert result.inputs == tuple(example)
    assert result.batches == (4, 1, 7, 64)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    types = [(value.name, value.type, value.shape) for value in session.get_inputs()]
    assert types == [
        ("flag", "tensor(bool)", ["batch"]),
        ("ids", "tensor(int32)", ["batch", 3]),
        ("note", "tensor(float16)", ["batch", 2, 5]),
        ("dense", "tensor(float)", ["batch", 3]),
    ]
    (answer,) = session.run(None, {name: value.numpy() for name, value in example.items()})
    np.testing.assert_array_equal(answer, example["dense"].numpy() + 1)


@BOTH
def test_large_weights_lie_in_one_file_beside_it(
    exporter: Exporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "EXTERNAL_DATA_BYTES", 10_000)
    module = toys.Lookup(rows=1000)
    result = export_model(module, toys.example(), tmp_path / "m.onnx", exporter=exporter)
    assert result.external_data == tmp_path / "m.onnx.data"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert (tmp_path / "m.onnx.data").stat().st_size >= 2 * 1000 * 4 * 4
    assert (tmp_path / "m.onnx").stat().st_size < 10_000
    np.testing.assert_allclose(run(tmp_path / "m.onnx", 9), module(*toys.example(9)).detach().numpy(), atol=1e-6)
    # A second export replaces both, also where the weights have become other ones.
    with torch.no_grad():
        module.user.weight.mul_(3)
    export_model(module, toys.example(), tmp_path / "m.onnx", exporter=exporter)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    np.testing.assert_allclose(run(tmp_path / "m.onnx", 9), module(*toys.example(9)).detach().numpy(), atol=1e-6)


@BOTH
def test_dicts_keywords_and_several_outputs(exporter: Exporter, tmp_path: Path) -> None:
    ids, dense = toys.example()
    examples = {"fields": {"user": ids[:, 0], "item": ids[:, 1]}, "dense": dense}
    result = export_model(toys.Nested(), examples, tmp_path / "m.onnx", exporter=exporter, output_names=["p", "rank"])
    assert result.inputs == ("fields_user", "fields_item", "dense")
    assert result.outputs == ("p", "rank")
    assert {tensor.name for tensor in onnx.load(tmp_path / "m.onnx").graph.initializer} >= {"user.weight"}


@BOTH
def test_an_example_of_one_row_still_gives_a_dynamic_batch(exporter: Exporter, tmp_path: Path) -> None:
    result = export_model(toys.Lookup(), toys.example(1), tmp_path / "m.onnx", exporter=exporter)
    assert result.batches == (1, 7, 64)
    assert run(tmp_path / "m.onnx", 12).shape == (12, 1)


def test_a_batch_at_which_the_module_itself_fails_is_left_out(tmp_path: Path) -> None:
    class NotAlone(toys.Lookup):
        def forward(self, ids: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
            if ids.shape[0] == 1:
                raise ValueError("needs two rows")
            return super().forward(ids, dense)

    result = export_model(NotAlone(), toys.example(), tmp_path / "m.onnx", exporter="torchscript")
    assert result.batches == (5, 7, 64)


def test_without_onnx_runtime_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpiframe.export import compare

    monkeypatch.setattr(compare, "find_spec", lambda name: None)
    result = export_model(toys.Lookup(), toys.example(), tmp_path / "m.onnx", exporter="torchscript")
    assert result.max_abs_error is None
    assert result.batches == ()
    assert result.path.is_file()


def test_nan_and_infinity_in_equal_places_agree(tmp_path: Path) -> None:
    class Logarithm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(x)

    example = torch.tensor([[1.0], [0.0], [-1.0]])
    result = export_model(Logarithm(), example, tmp_path / "m.onnx", exporter="torchscript")
    assert result.max_abs_error is not None
    assert result.max_abs_error < 1e-6
    assert result.inputs == ("x",)


def test_a_newer_opset_keeps_the_ir_version_it_needs(tmp_path: Path) -> None:
    result = export_model(toys.Lookup(), toys.example(), tmp_path / "m.onnx", opset=23)
    assert result.opset == 23
    assert run(tmp_path / "m.onnx", 3).shape == (3, 1)


def test_outputs_of_float16_are_held_to_their_own_digits(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).half()
    result = export_model(module, torch.randn(5, 16).half(), tmp_path / "m.onnx", exporter="torchscript")
    assert result.max_abs_error is not None
    assert result.max_abs_error < 2e-3
