"""A checkpoint brings back the same model, and nothing else is taken for one."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from dpiframe.models import Checkpoint, load_checkpoint, names, save_checkpoint
from dpiframe.models.data import Encoder
from dpiframe.models.data.encoding import Hashing, Vocabulary
from tests.models.schemas import batch, small_model


@pytest.mark.parametrize("name", names())
def test_every_model_comes_back(name: str, tmp_path: Path) -> None:
    model = small_model(name).eval()
    encoder = Encoder({"user": Vocabulary({"ann": 1, "": 2}), "item": Hashing(10)})
    save_checkpoint(tmp_path / "m.pt", Checkpoint(model, encoder, {"auc": 0.7}))
    loaded = load_checkpoint(tmp_path / "m.pt")
    inputs = batch(model.schema, 5)
    assert torch.equal(loaded.model(*inputs), model(*inputs))
    assert not loaded.model.training
    assert loaded.model.schema == model.schema
    assert loaded.encoder == encoder
    assert loaded.metrics == {"auc": 0.7}
    apart = load_checkpoint(tmp_path / "m.pt", layout="fields").model
    assert torch.equal(apart(*batch(apart.schema, 5)), model(*inputs))
    assert [path.name for path in tmp_path.iterdir()] == ["m.pt"]


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"old")

    def fail(content: Any, target: Any) -> None:
        Path(target).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(path, Checkpoint(small_model("dcn")))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.pt"):
        load_checkpoint(tmp_path / "none.pt")


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("code in a checkpoint was run",))


@pytest.mark.parametrize(
    "content",
    [b"", b"not a checkpoint", pickle.dumps({"format": "x"}), pickle.dumps(Trap())],
    ids=["empty", "text", "dict", "code"],
)
def test_other_files_are_refused_unexecuted(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"m\.pt: not a checkpoint"):
        load_checkpoint(path)


@pytest.mark.parametrize("missing", ["schema", "weights", "hyper"])
def test_a_damaged_checkpoint_is_one_line(missing: str, tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    save_checkpoint(path, Checkpoint(small_model("dcn")))
    content = torch.load(path, weights_only=True)
    if missing == "weights":
        content["weights"].popitem()
    else:
        del content[missing]
    torch.save(content, path)
    with pytest.raises(ValueError, match=r"^[^\n]*m\.pt: a damaged checkpoint: [^\n]+$"):
        load_checkpoint(path)


def test_a_model_of_unknown_name_cannot_be_saved(tmp_path: Path) -> None:
    model = small_model("dcn")
    model.name = ""
    with pytest.raises(ValueError, match=r"made by models\.create"):
        save_checkpoint(tmp_path / "m.pt", Checkpoint(model))
    assert not list(tmp_path.iterdir())
