"""Where a model's external data goes when the output is written: it stays, is copied, or is hard-linked."""

from __future__ import annotations

import filecmp
import os
import shutil
from pathlib import Path
from typing import Literal

from dpiframe.errors import UsageError

Mode = Literal["reference", "copy", "link"]


def files_to_bring(mode: Mode, source: Path, target: Path, locations: list[str]) -> list[str]:
    """The data files (relative to the model's folder) that must come along to the target's folder.

    None where both are the same folder. Raises UsageError where they would have to and mode is "reference", or where
    another file is in their place or in that of a folder above them.
    """
    if not locations or target.parent.samefile(source.parent):
        return []
    if mode == "reference":
        raise UsageError(
            f"{target}: the model's external data ('{locations[0]}') stays in {source.parent}, so the output must "
            "lie there; or choose --external-data copy, or link"
        )
    for location in locations:
        theirs = target.parent / location
        above = [target.parent / folder for folder in Path(location).parents]
        in_the_way = next((folder for folder in above if folder.exists() and not folder.is_dir()), None)
        if in_the_way is None and theirs.exists() and not _same_content(source.parent / location, theirs):
            in_the_way = theirs
        if in_the_way is not None:
            raise UsageError(
                f"{in_the_way}: another file is where the external data goes; remove it or choose another folder"
            )
    return locations


def bring(mode: Mode, source_folder: Path, folder: Path, locations: list[str]) -> None:
    """Copy or hard-link the data files into `folder`. Raises UsageError where the file system can't link.

    Symbolic links are no choice: ONNX Runtime refuses data that a link leads out of the model's folder.
    """
    for location in locations:
        original, here = (source_folder / location).resolve(), folder / location
        here.parent.mkdir(parents=True, exist_ok=True)
        if mode == "copy":
            shutil.copy2(original, here)
            continue
        try:
            os.link(original, here)
        except OSError as error:
            raise UsageError(
                f"{original}: can't be hard-linked into {folder.parent}: {error.strerror}; choose --external-data copy"
            ) from None


def _same_content(ours: Path, theirs: Path) -> bool:
    return ours.samefile(theirs) or (theirs.is_file() and filecmp.cmp(ours, theirs, shallow=False))
