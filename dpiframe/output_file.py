"""An output file that appears complete or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from types import TracebackType

from dpiframe.errors import UsageError


def default_output(source: Path) -> Path:
    """model.onnx -> model.opt.onnx, beside it."""
    return source.with_name(f"{source.stem}.opt.onnx")


def output_path(given: str | Path) -> Path:
    """The path of an output. Raises UsageError for a name with a slash at its end, which a Path forgets, of no folder:
    the file would get the name that the user meant for a folder."""
    text = os.fspath(given)
    path = Path(text)
    if text.endswith(("/", "/.")) and not path.is_dir():
        raise UsageError(f"{text}: no such folder; make it first, and name a file in it")
    return path


def check_place(target: Path, *, option: str = "-o") -> None:
    """Raise UsageError where no file can be put: a folder, or a place in none. A device, pipe or socket would not be
    written to but replaced. option: the one to name another file with.
    """
    if target.is_dir():
        raise UsageError(f"{target}: is a folder; name a file with {option}")
    if not target.parent.is_dir():
        raise UsageError(f"{target}: the folder {target.parent} doesn't exist; make it first")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target}: is no regular file but a device, pipe or socket; name another with {option}")


def is_same_file(target: Path, file: Path) -> bool:
    """Whether two paths are one file, by symbolic and hard links too. A file that doesn't exist is none."""
    return target.exists() and file.exists() and target.samefile(file)


def check_target(source: Path, target: Path, data: list[Path]) -> None:
    """Raise UsageError where writing `target` would harm the input or its external data, or can't work.

    Symbolic and hard links to the input count as the input.
    """
    check_place(target)
    for file in (source, *data):
        if is_same_file(target, file):
            kind = "the input itself" if file == source else "the model's external data"
            raise UsageError(f"{target}: is {kind}, which is never overwritten; choose another output with -o")


class StagedOutput:
    """A temporary place in the target's folder, from which `publish` renames into place.

    path: where to write the model meanwhile. folder: its folder. own_folder: stage in a new subfolder, so that files
    can lie beside the model under their own names. Leaving the block removes everything that wasn't published.
    """

    def __init__(self, target: Path, *, own_folder: bool) -> None:
        self.target = target
        hidden = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
        self._temporary = hidden
        self._own_folder = own_folder
        self.folder = hidden if own_folder else target.parent
        self.path = hidden / target.name if own_folder else hidden
        self._scratch: list[Path] = []

    def __enter__(self) -> StagedOutput:
        try:
            if self._own_folder:
                self._temporary.mkdir()
            else:
                # Created with the user's umask, unlike tempfile's.
                os.close(os.open(self._temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except OSError as error:
            raise UsageError(f"{self.target}: can't be written: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self._scratch:
            path.unlink(missing_ok=True)
        if self._own_folder:
            shutil.rmtree(self._temporary, ignore_errors=True)
        else:
            self._temporary.unlink(missing_ok=True)

    def scratch(self, name: str) -> Path:
        """Another file beside the staged model, from which the same external data is found; removed at the end."""
        path = self.path.with_name(f".{self.target.name}.{name}.{secrets.token_hex(4)}.tmp")
        self._scratch.append(path)
        return path

    def publish(self, data: list[str]) -> None:
        """Flush all bytes to disk, then rename the data files (named relative to the folder) and the model into place.

        Only with a folder of its own is there any data to publish. Where a rename fails, files that were new are taken
        back.
        """
        for file in (self.path, *(self.folder / name for name in data)):
            _flush(file)
        placed: list[Path] = []
        try:
            for name in data:
                final = self.target.parent / name
                final.parent.mkdir(parents=True, exist_ok=True)
                is_new = not final.exists()
                (self.folder / name).replace(final)
                if is_new:
                    placed.append(final)
            self.path.replace(self.target)
        except BaseException:
            for file in placed:
                file.unlink(missing_ok=True)
            raise
        _flush(self.target.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
