"""Hazard: the input, or the tables beside it, is overwritten or changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import dpiframe
from tests.front_door.helpers import Finished, ctr_model, fingerprint, save_with_external_data

Run = Callable[..., Finished]


def test_the_input_keeps_its_bytes_and_its_time(tmp_path: Path, model_file: Path, run_command: Run) -> None:
    before = fingerprint(tmp_path)
    done = run_command("optimize", model_file)
    assert done.code == 0, done.stderr
    assert done.stderr == ""
    after = fingerprint(tmp_path)
    assert after.keys() - before.keys() == {"model.opt.onnx"}
    assert {name: after[name] for name in before} == before


def same_path(model: Path) -> Path:
    return model


def another_spelling(model: Path) -> Path:
    return model.parent / "sub" / ".." / model.name


def symbolic_link(model: Path) -> Path:
    link = model.with_name("symbolic.onnx")
    link.symlink_to(model)
    return link


def hard_link(model: Path) -> Path:
    link = model.with_name("hard.onnx")
    os.link(model, link)
    return link


@pytest.mark.parametrize("alias", [same_path, another_spelling, symbolic_link, hard_link])
def test_the_output_may_not_be_the_input(tmp_path: Path, model_file: Path, alias: Callable[[Path], Path]) -> None:
    (tmp_path / "sub").mkdir()
    output = alias(model_file)
    before = fingerprint(tmp_path)
    with pytest.raises(dpiframe.UsageError, match="is the input itself, which is never overwritten; choose another"):
        dpiframe.optimize(model_file, output)
    assert fingerprint(tmp_path) == before


def test_a_model_named_through_a_link_is_as_safe(tmp_path: Path, model_file: Path, run_command: Run) -> None:
    link = symbolic_link(model_file)
    before = fingerprint(tmp_path)
    assert run_command("optimize", link, "-o", model_file).code == 2
    assert fingerprint(tmp_path) == before


def test_the_output_may_not_be_the_external_data(tmp_path: Path, run_command: Run) -> None:
    model = save_with_external_data(ctr_model(), tmp_path / "model.onnx")
    before = fingerprint(tmp_path)
    done = run_command("optimize", model, "-o", "tables.bin")
    assert done.code == 2
    assert "is the model's external data, which is never overwritten" in done.error()
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("option", ["provider", "bad_ids", "external_data"])
def test_a_wrong_choice_is_refused_in_python_as_well(model_file: Path, option: str) -> None:
    with pytest.raises(dpiframe.UsageError, match=f"{option} 'other': choose one of "):
        dpiframe.optimize(model_file, **{option: "other"})  # type: ignore[arg-type]


def test_an_earlier_output_is_replaced(tmp_path: Path, model_file: Path) -> None:
    output = tmp_path / "out.onnx"
    output.write_bytes(b"an earlier file")
    dpiframe.optimize(model_file, output)
    onnx.load(output)
    assert {p.name for p in tmp_path.iterdir()} == {"model.onnx", "out.onnx"}
