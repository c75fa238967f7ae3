"""`train` as a command: generated and real rows in, a checkpoint out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpiframe.errors import UsageError
from dpiframe.models import Checkpoint, load_checkpoint, save_checkpoint
from dpiframe.models.cli import train
from tests.models.commands import command
from tests.models.schemas import small_model


@pytest.mark.parametrize(("name", "tasks"), [("dcn", 1), ("din", 1), ("mmoe", 2)])
def test_generated_rows_suit_each_model(name: str, tasks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = command(train, name, "--rows", 600, "--dim", 2, "--epochs", 1)
    assert "test AUC" in output
    loaded = load_checkpoint(tmp_path / f"{name}.pt")
    assert loaded.model.name == name
    assert loaded.model.tasks == tasks
    assert loaded.encoder is None
    assert set(loaded.metrics) == {"validation_auc", "test_auc", "test_log_loss"}


def test_a_criteo_file_brings_its_encoder_along(criteo_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "fm.pt"
    command(train, "DeepFM", "--data", criteo_file, "--epochs", 1, "--dim", 2, "--min-count", 2, "-o", target)
    loaded = load_checkpoint(target)
    assert loaded.encoder is not None
    for item in loaded.model.schema.sparse:
        assert loaded.encoder.fields[item.name].size == item.vocabulary


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["deepfn"], ValueError, "unknown model 'deepfn'; choose one of"),
        (["dcn", "--data", "none.csv"], FileNotFoundError, r"none\.csv"),
        (["dcn", "--format", "avazu"], ValueError, "format avazu needs a file"),
        (["dcn", "--data", "x", "--format", "generated"], ValueError, "generated data has no file"),
        (["dcn", "-o", "none/m.pt"], UsageError, "the folder none doesn't exist; make it first"),
        (["dcn", "-o", "none/"], UsageError, "none/: no such folder"),
        (["dcn", "-o", "."], UsageError, "is a folder; name a file with -o"),
        (["dcn", "--seconds", "-1"], ValueError, "--seconds -1: give more than 0"),
        (["dcn", "--seconds", "0"], ValueError, "--seconds 0: give more than 0"),
        (["dcn", "--seconds", "nan"], ValueError, "--seconds nan: give more than 0"),
        (["dcn", "--learning-rate", "0"], ValueError, "--learning-rate 0: give more than 0"),
        (["dcn", "--rows", "0"], ValueError, "--rows 0: give 1 or more"),
        (["dcn", "--epochs", "0"], ValueError, "--epochs 0: give 1 or more"),
        (["dcn", "--batch-size", "-1"], ValueError, "--batch-size -1: give 1 or more"),
        (["dcn", "--seed", "-1"], ValueError, "--seed -1: give 0 to 4294967295"),
        (["dcn", "--seed", "99999999999999999999"], ValueError, "--seed 99999999999999999999: give 0 to"),
        (["dcn", "--rows", "-5", "--format", "movielens"], ValueError, "--rows -5: give 1 or more"),
        (["dcn", "--rows", "5"], ValueError, "too few to split"),
    ],
)
def test_errors_name_what_is_wrong(
    arguments: list[str], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        command(train, *arguments)
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.pt")
    with pytest.raises(UsageError, match=r"pipe\.pt: is no regular file"):
        command(train, "dcn", "--rows", 600, "-o", "pipe.pt")
    with pytest.raises(UsageError, match=r"pipe\.pt: is no regular file"):
        save_checkpoint("pipe.pt", Checkpoint(small_model("dcn").eval()))
    assert Path("pipe.pt").is_fifo()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("link", ["none", "symbolic", "hard"])
def test_the_data_is_never_overwritten(link: str, tmp_path: Path) -> None:
    data, target = tmp_path / "clicks.txt", tmp_path / "model.pt"
    data.write_text("kept")
    if link == "symbolic":
        target.symlink_to(data)
    elif link == "hard":
        target.hardlink_to(data)
    else:
        target = tmp_path / "." / "clicks.txt"
    with pytest.raises(UsageError, match=r"is the data itself, which is never overwritten; choose another .* -o"):
        command(train, "dcn", "--data", data, "-o", target)
    assert data.read_text() == "kept"


@pytest.mark.parametrize("fetched", [False, True])
def test_no_file_of_movielens_is_overwritten(fetched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "dpiframe" / "ml-100k"
    folder.mkdir(parents=True)
    given = [] if fetched else ["--data", folder]
    with pytest.raises(UsageError, match=r"ml-100k\.item: is the data itself"):
        command(train, "din", "--format", "movielens", *given, "-o", folder / "ml-100k.item")
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("same", "message"),
    [(range(90, 100), "the test rows are all .*give more rows"), (range(80, 90), "the validation rows are all")],
)
def test_rows_of_one_class_are_refused_before_training(
    same: range, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dpiframe.models.training._step", lambda *_: pytest.fail("it was trained"))
    Path("clicks.csv").write_text(
        "click,a\n" + "".join(f"{0 if row in same else row % 2},{row % 3}\n" for row in range(100))
    )
    with pytest.raises(ValueError, match=message):
        command(train, "dcn", "--data", "clicks.csv", "--format", "avazu", "--dim", 2)
