"""Hazard: a file that is no model, or whose tables are not where it says, is found out late or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from dpiframe.graph_passes.model_io import ModelError, external_files, is_external, load, save, tensors
from tests.graph_passes.everything import everything
from tests.graph_passes.harness import parse, table


def external_model(location: str = "weights.bin", offset: int = 0, length: int | None = 160) -> onnx.ModelProto:
    model = parse("(int64[b] a) => (float[b,4] y) { y = Gather(A, a) }")
    tensor = TensorProto(name="A", data_type=TensorProto.FLOAT, dims=[10, 4], data_location=TensorProto.EXTERNAL)
    entries = {"location": location, "offset": str(offset), **({} if length is None else {"length": str(length)})}
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(tensor)
    return model


def stored(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def complaint(path: Path | str) -> str:
    with pytest.raises(ModelError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    model = everything()
    save(model, tmp_path / "model.onnx")
    assert load(tmp_path / "model.onnx") == model
    assert load(str(tmp_path / "model.onnx")) == model


def test_equal_models_are_equal_bytes(tmp_path: Path) -> None:
    save(everything(), tmp_path / "one.onnx")
    save(everything(), tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_no_such_file(tmp_path: Path) -> None:
    assert complaint(tmp_path / "missing.onnx") == "no such file"


def test_a_folder(tmp_path: Path) -> None:
    assert complaint(tmp_path) == "is a folder; name the .onnx file in it"


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert complaint(tmp_path / "file" / "model.onnx").startswith("can't be read: ")


@pytest.mark.parametrize("content", [b"not a model at all, but text", b"\x00" * 64, b"\xff" * 64, b"PK\x03\x04"])
def test_no_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    assert complaint(tmp_path / "model.onnx").startswith("not an ONNX model")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    assert complaint(tmp_path / "model.onnx") == "not an ONNX model (it holds no graph or no opset)"


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9])
def test_a_model_that_is_cut_short(tmp_path: Path, cut: float) -> None:
    data = parse("(int64[b] a) => (float[b,4] y) { y = Gather(A, a) }", A=table(100, 4)).SerializeToString()
    (tmp_path / "model.onnx").write_bytes(data[: int(len(data) * cut)])
    assert complaint(tmp_path / "model.onnx").startswith("not an ONNX model")


@pytest.mark.parametrize("missing", ["graph", "opset_import", "ir_version"])
def test_a_protobuf_without_what_every_model_has(tmp_path: Path, missing: str) -> None:
    model = parse("(float[2] x) => (float[2] y) { y = Relu(x) }")
    model.ClearField(missing)  # type: ignore[arg-type]
    assert complaint(stored(tmp_path, model)).startswith("not an ONNX model")


def test_external_data_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(table(10, 4).tobytes())
    model = external_model()
    loaded = load(stored(tmp_path, model))
    assert loaded == model
    assert is_external(loaded.graph.initializer[0])
    assert external_files(loaded) == ["weights.bin"]


def test_external_data_that_is_missing(tmp_path: Path) -> None:
    assert complaint(stored(tmp_path, external_model())) == (
        "external data 'weights.bin' of tensor 'A' is missing; put it beside the model, or export the model again"
    )


def test_external_data_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").mkdir()
    assert "is missing" in complaint(stored(tmp_path, external_model()))


@pytest.mark.parametrize(("offset", "length", "end"), [(0, 160, 160), (4096, 160, 4256), (4096, None, 4256)])
def test_external_data_that_is_cut_short(tmp_path: Path, offset: int, length: int | None, end: int) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0" * 100)
    text = complaint(stored(tmp_path, external_model(offset=offset, length=length)))
    assert text == (
        f"external data 'weights.bin' is cut short: tensor 'A' ends at byte {end}, the file at 100; "
        "copy it whole, or export the model again"
    )


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "sub/../../weights.bin"])
def test_external_data_outside_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 160)
    assert "outside the model's folder" in complaint(stored(folder, external_model(location)))


def test_external_data_behind_a_link_that_leads_outside(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 160)
    (folder / "weights.bin").symlink_to(tmp_path / "weights.bin")
    assert "outside the model's folder" in complaint(stored(folder, external_model()))


@pytest.mark.parametrize("location", ["", "."])
def test_external_data_without_a_file_name(tmp_path: Path, location: str) -> None:
    assert "is missing" in complaint(stored(tmp_path, external_model(location)))


def test_external_data_whose_entries_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"\0" * 160)
    model = external_model()
    model.graph.initializer[0].external_data[1].value = "many"
    assert "tensor 'A'" in complaint(stored(tmp_path, model))


def test_external_data_in_a_subfolder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "weights.bin").write_bytes(b"\0" * 160)
    assert external_files(load(stored(tmp_path, external_model("data/weights.bin")))) == ["data/weights.bin"]


def test_every_tensor_is_found() -> None:
    names = [t.name for t in tensors(everything())]
    assert sorted(names) == sorted(
        ["A", "C", "one", "W", "sparse", "", "own", "own", "in_attribute", "t", "own", "in_sparse", ""]
    )


def test_external_data_of_constant_nodes_branches_and_functions_is_checked(tmp_path: Path) -> None:
    model = parse(
        "(float[2] x) => (float[2] y) { y = local.F(x) }",
        imports=', "local": 1',
        functions='<domain: "local", opset_import: ["": 20]> F (a) => (b) { c = Constant<value = float[2] {1, 2}>() b = Add(a, c) }',
    )
    tensor = model.functions[0].node[0].attribute[0].t
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.name = "inner"
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="gone.bin")
    assert complaint(stored(tmp_path, model)) == (
        "external data 'gone.bin' of tensor 'inner' is missing; put it beside the model, or export the model again"
    )


def test_files_are_listed_once_in_order() -> None:
    model = external_model("b.bin")
    for name, location in (("D", "a.bin"), ("E", "b.bin")):
        model.graph.initializer.add().CopyFrom(external_model(location).graph.initializer[0])
        model.graph.initializer[-1].name = name
    assert external_files(model) == ["b.bin", "a.bin"]


def test_a_model_beyond_two_gigabytes_says_what_to_do(tmp_path: Path) -> None:
    class TooLarge:
        def SerializeToString(self, deterministic: bool) -> bytes:  # noqa: N802
            raise ValueError("Message onnx.ModelProto exceeds maximum protobuf size of 2GB")

    with pytest.raises(ModelError, match="exceeds protobuf's 2 GB; save its weights as external data first"):
        save(TooLarge(), tmp_path / "model.onnx")  # type: ignore[arg-type]
    assert not (tmp_path / "model.onnx").exists()


def test_weights_in_every_form_of_the_protobuf(tmp_path: Path) -> None:
    model = parse("(float[2] x) => (float[2] y) { y = Add(x, w) }")
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2]))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "raw"))
    save(model, tmp_path / "model.onnx")
    assert load(tmp_path / "model.onnx") == model
