"""Hazard: a build that asks the wrong mirror for the header, trusts what it gets, or fails without a hint."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "custom_ops" / "cmake" / "fetch_onnxruntime_header.py"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetch_onnxruntime_header", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return module


@pytest.mark.parametrize(
    "files",
    [
        {
            "sources.list": "# deb http://old.example/debian bookworm main\n"
            "deb http://mirror.example/debian bookworm main\n"
        },
        {"sources.list": "deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian sid contrib main # mine\n"},
        {
            "sources.list": "deb-src http://src.example/debian bookworm main\n",
            "sources.list.d/a.list": "deb http://vendor.example/apt cloud-bookworm main\n",
            "sources.list.d/b.sources": "Types: deb deb-src\nURIs: http://mirror.example/debian\n"
            "Suites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n xyz\n",
        },
        {
            "sources.list.d/debian.sources": "# a comment\nTypes: deb\nURIs: http://security.example/debian-security\n"
            "Suites: bookworm-security\nComponents: main\n\nTypes: deb\nURIs: http://off.example/debian\n"
            "Suites: bookworm\nComponents: main\nEnabled: no\n\nTypes: deb\nURIs: http://mirror.example/debian\n"
            "Suites: trixie\nComponents: main non-free\n"
        },
    ],
)
def test_the_mirror_is_the_one_that_the_machine_uses(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(script, "SOURCES", tmp_path)
    assert script.mirror() == "http://mirror.example/debian"


def test_without_a_mirror_the_message_says_what_to_do(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "SOURCES", tmp_path)
    monkeypatch.setattr(script, "KEYRING", SCRIPT)
    assert script.main() == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"no apt source under {tmp_path} names a Debian mirror" in err
    assert "set ONNXRUNTIME_INCLUDE_DIR" in err


def test_a_kept_header_is_used_without_a_network(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = b"a header"
    monkeypatch.setattr(script, "SHA256", script.hashlib.sha256(text).hexdigest())
    monkeypatch.setattr(script, "download", lambda folder: pytest.fail("the network was used"))
    folder = script.cache_folder()
    folder.mkdir(parents=True)
    (folder / script.HEADER).write_bytes(text)
    assert script.main() == 0
    assert capsys.readouterr().out.strip() == str(folder)


def test_a_broken_kept_header_is_fetched_again(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"a header"
    monkeypatch.setattr(script, "SHA256", script.hashlib.sha256(text).hexdigest())
    folder = script.cache_folder()
    folder.mkdir(parents=True)
    (folder / script.HEADER).write_bytes(b"half a hea")

    def download(work: Path) -> Path:
        (work / script.HEADER).write_bytes(text)
        (work / "onnxruntime_cxx_api.h").write_bytes(b"beside it")
        return work / script.HEADER

    monkeypatch.setattr(script, "download", download)
    assert script.main() == 0
    assert (folder / script.HEADER).read_bytes() == text
    assert (folder / "onnxruntime_cxx_api.h").read_bytes() == b"beside it"
    assert {path.name for path in folder.iterdir()} == {script.HEADER, "onnxruntime_cxx_api.h"}


def test_another_header_than_the_tested_one_is_refused(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "KEYRING", SCRIPT)
    monkeypatch.setattr(script, "mirror", lambda: "http://mirror.example/debian")

    def run(command: list[str], folder: Path) -> None:
        if "download" in command:
            (folder / f"{script.PACKAGE}_9_amd64.deb").write_bytes(b"")
        if command[0] == "dpkg-deb":
            (folder / "package").mkdir()
            (folder / "package" / script.HEADER).write_bytes(b"something else")

    monkeypatch.setattr(script, "run", run)
    with pytest.raises(script.FetchError, match=r"holds another .* than the one that dpiframe was tested with"):
        script.download(tmp_path)
