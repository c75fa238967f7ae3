"""Hazard: an error that is a traceback, exits with 0, or leaves a file behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import dpiframe
from dpiframe import cli
from tests.front_door.helpers import Finished, ctr_model, fingerprint, save_with_external_data

Run = Callable[..., Finished]
Setup = Callable[[Path], list[str]]


def no_such_file(folder: Path) -> list[str]:
    return ["missing.onnx"]


def a_folder(folder: Path) -> list[str]:
    (folder / "models").mkdir()
    return ["models"]


def not_onnx(folder: Path) -> list[str]:
    (folder / "text.onnx").write_text("this is no model\n")
    return ["text.onnx"]


def empty_file(folder: Path) -> list[str]:
    (folder / "empty.onnx").touch()
    return ["empty.onnx"]


def cut_short(folder: Path) -> list[str]:
    data = ctr_model().SerializeToString()
    (folder / "cut.onnx").write_bytes(data[: len(data) // 2])
    return ["cut.onnx"]


def missing_data(folder: Path) -> list[str]:
    save_with_external_data(ctr_model(), folder / "model.onnx")
    (folder / "tables.bin").unlink()
    return ["model.onnx"]


def short_data(folder: Path) -> list[str]:
    save_with_external_data(ctr_model(), folder / "model.onnx")
    with (folder / "tables.bin").open("r+b") as file:
        file.truncate(10)
    return ["model.onnx"]


def data_outside(folder: Path) -> list[str]:
    model = onnx.load(save_with_external_data(ctr_model(), folder / "model.onnx"), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../tables.bin"
    (folder / "tables.bin").unlink()
    onnx.save(model, folder / "model.onnx")
    return ["model.onnx"]


def with_operator(op: str, domain: str) -> Setup:
    def setup(folder: Path) -> list[str]:
        model = ctr_model()
        model.graph.node.insert(0, helper.make_node(op, ["ids"], ["made"], domain=domain))
        model.opset_import.append(helper.make_opsetid(domain, 1))
        onnx.save(model, folder / "model.onnx")
        return ["model.onnx"]

    return setup


def with_model(*arguments: str) -> Setup:
    def setup(folder: Path) -> list[str]:
        onnx.save(ctr_model(), folder / "model.onnx")
        return ["model.onnx", *arguments]

    return setup


def with_inputs(**arrays: np.ndarray) -> Setup:
    def setup(folder: Path) -> list[str]:
        np.savez(folder / "real.npz", **arrays)
        return with_model("--inputs", "real.npz")(folder)

    return setup


def not_a_library(folder: Path) -> list[str]:
    (folder / "library.so").write_text("no library\n")
    return with_model("--custom-op-library", "library.so")(folder)


ERRORS: list[tuple[str, int, Setup, str]] = [
    ("no such file", 1, no_such_file, "missing.onnx: no such file"),
    ("a folder", 1, a_folder, "models: is a folder"),
    ("this folder", 1, lambda _: ["."], ".: is a folder; name the .onnx file in it"),
    ("the root", 1, lambda _: ["/"], "/: is a folder; name the .onnx file in it"),
    ("not ONNX", 1, not_onnx, "text.onnx: not an ONNX model"),
    ("empty file", 1, empty_file, "empty.onnx: not an ONNX model"),
    ("cut short", 1, cut_short, "cut.onnx: not an ONNX model, or cut short"),
    ("missing data", 1, missing_data, "external data 'tables.bin' of tensor"),
    ("short data", 1, short_data, "external data 'tables.bin' is cut short"),
    ("data outside", 1, data_outside, "outside the model's folder"),
    (
        "unknown operator",
        1,
        with_operator("Hash", "acme.ads"),
        "acme.ads::Hash is not ONNX Runtime's own; name its library with --custom-op-library",
    ),
    (
        "no function bodies",
        1,
        with_operator("FusedMultiGather", "dpiframe"),
        "dpiframe::FusedMultiGather has lost its function body",
    ),
    ("no such library", 2, with_model("--custom-op-library", "none.so"), "--custom-op-library none.so: no such file"),
    ("not a library", 1, not_a_library, "ONNX Runtime can't load the model itself: "),
    ("no such inputs", 2, with_model("--inputs", "none.npz"), "--inputs none.npz: no such file"),
    ("inputs lack one", 2, with_inputs(ids=np.zeros((1, 3), np.int64)), "holds no array 'dense'"),
    (
        "inputs misfit",
        2,
        with_inputs(ids=np.zeros((1, 3)), dense=np.zeros((1, 3))),
        "'ids' is float64; the model takes int",
    ),
    ("output folder missing", 2, with_model("-o", "none/out.onnx"), "the folder none doesn't exist; make it first"),
    ("output is a folder", 2, with_model("-o", "."), ".: is a folder; name a file with -o"),
    ("output is no folder", 2, with_model("-o", "none/"), "none/: no such folder; make it first, and name a file in"),
    ("output is no folder either", 2, with_model("-o", "none/."), "none/.: no such folder; make it first"),
    ("output is no folder but a file", 2, with_model("-o", "model.onnx/"), "model.onnx/: no such folder"),
    ("output unwritable", 2, with_model("-o", "/proc/out.onnx"), "/proc/out.onnx: can't be written: "),
    ("bad provider", 2, with_model("--provider", "tpu"), "'tpu' is not one of 'auto', 'cpu', 'cuda'"),
    ("bad policy", 2, with_model("--bad-ids", "ignore"), "'ignore' is not one of 'error', 'zero', 'clamp'"),
    (
        "bad data mode",
        2,
        with_model("--external-data", "move"),
        "'move' is not one of 'reference', 'copy', 'link'",
    ),
    ("unknown option", 2, with_model("--fast"), "No such option: --fast"),
    ("option without value", 2, with_model("-o"), "requires an argument"),
    ("second model", 2, with_model("model.onnx"), "model.onnx"),
]


@pytest.mark.parametrize(("code", "setup", "named"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_optimize(tmp_path: Path, run_command: Run, code: int, setup: Setup, named: str) -> None:
    arguments = setup(tmp_path)
    before = fingerprint(tmp_path)
    done = run_command("optimize", *arguments)
    assert done.code == code, done.stderr
    assert named in done.error()
    assert done.stdout == ""
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["verify", "model.onnx", "missing.onnx"], 1, "missing.onnx: no such file"),
        (["verify", "missing.onnx", "model.onnx"], 1, "missing.onnx: no such file"),
        (["verify", "model.onnx"], 2, "Missing argument 'OPTIMIZED'"),
        (["verify", "model.onnx", "model.onnx", "--provider", "tpu"], 2, "'tpu' is not one of 'auto', 'cpu', 'cuda'"),
        (
            ["verify", "model.onnx", "other.onnx"],
            1,
            "case 'random inputs, batch 1', with the library: output",
        ),
        (["optimize", "missing.onnx"], 1, "missing.onnx: no such file"),
        (["inspect", "missing.onnx"], 1, "missing.onnx: no such file"),
        (["inspect", "model.onnx", "--provider", "tpu"], 2, "'tpu' is not one of 'cpu', 'cuda'"),
        (["polish"], 2, "No such command 'polish'"),
    ],
)
def test_dpiframe(
    tmp_path: Path, model_file: Path, run_command: Run, arguments: list[str], code: int, named: str
) -> None:
    onnx.save(ctr_model(seed=1), tmp_path / "other.onnx")
    before = fingerprint(tmp_path)
    done = run_command("dpiframe", *arguments)
    assert done.code == code, done.stderr
    assert named in done.error()
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize(
    ("theirs", "ours", "code"), [(ValueError, dpiframe.UsageError, 2), (RuntimeError, dpiframe.DPIFrameError, 1)]
)
def test_train_and_export_keep_their_line(theirs: type[Exception], ours: type[Exception], code: int) -> None:
    def command() -> None:
        raise theirs("fields.csv: line 3 is cut short")

    with pytest.raises(ours, match=r"^fields\.csv: line 3 is cut short$") as caught:
        cli._with_our_errors(command)()
    assert caught.value.exit_code == code


def test_debug_shows_the_traceback_before_the_line(run_command: Run) -> None:
    done = run_command("optimize", "missing.onnx", "--debug")
    assert done.code == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-1] == "error: missing.onnx: no such file"


def test_json_holds_the_error_as_well(run_command: Run) -> None:
    done = run_command("optimize", "missing.onnx", "--json")
    assert done.code == 1
    assert json.loads(done.stdout) == {"ok": False, "error": "missing.onnx: no such file"}
    assert done.error() == "missing.onnx: no such file"
