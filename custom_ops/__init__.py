"""The native library of dpiframe: where it is, and what its kernels counted.

``libdpiframe_ops.so`` is what ONNX Runtime loads (``SessionOptions.register_custom_ops_library``); ``_kernels`` holds
the same kernels for numpy arrays.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BadIdCount", "bad_id_counts", "library_path", "reset_bad_id_counts", "version"]

LIBRARY = "libdpiframe_ops.so"


@dataclass(frozen=True)
class BadIdCount:
    """How often a lookup met an id outside its table.

    Attributes:
        node: the name of the node in the model.
        lookup: the ids and the table, as ``"ids[3] -> table"``: column 3 of input ``ids``, table ``table``.
        count: the number of ids.
    """

    node: str
    lookup: str
    count: int


@functools.cache
def library_path() -> Path:
    """The library that ``SessionOptions.register_custom_ops_library`` takes.

    Raises:
        FileNotFoundError: the package was imported without having been built.
    """
    # The library lies beside the extension module; in an editable install that is not where this file is.
    module = importlib.util.find_spec(f"{__name__}._kernels")
    if module is not None and module.origin is not None:
        path = Path(module.origin).with_name(LIBRARY)
        if path.is_file():
            return path
    raise FileNotFoundError(f"{LIBRARY} was not built: install the package with `pip install .` (or `make build`)")


@functools.cache
def _library(path: str) -> ctypes.CDLL:
    # ONNX Runtime may have loaded it already: the same file is the same library, with the same counts.
    library = ctypes.CDLL(path)
    library.dpiframe_version.restype = ctypes.c_char_p
    library.dpiframe_bad_ids_json.restype = ctypes.c_size_t
    library.dpiframe_bad_ids_json.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.dpiframe_bad_ids_reset.restype = ctypes.c_int
    library.dpiframe_bad_ids_reset.argtypes = [ctypes.c_char_p]
    return library


def version() -> str:
    """The version of the library, as ``"0.1.0"``."""
    text: bytes = _library(str(library_path())).dpiframe_version()
    return text.decode()


def bad_id_counts(tag: str, library: str | None = None) -> list[BadIdCount]:
    """Ids outside their tables so far, without the lookups that met none.

    Args:
        tag: the session's config entry ``"dpiframe.session"``. Sessions made with the same options share it.
        library: its entry ``"dpiframe.library"``, the file that the session has loaded; by default `library_path()`.

    Raises:
        LookupError: the library has given no session this tag.
        OSError: the library can't be loaded.
    """
    path = library or str(library_path())
    size = 1 << 12
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = _library(path).dpiframe_bad_ids_json(tag.encode(), buffer, size)
        if needed == 0:
            raise _unknown(tag, path)
        if needed <= size:
            return [BadIdCount(**entry) for entry in json.loads(buffer.value)]
        size = needed


def reset_bad_id_counts(tag: str, library: str | None = None) -> None:
    """Sets the counts of the sessions with this tag to 0; arguments and errors are those of `bad_id_counts`."""
    path = library or str(library_path())
    if not _library(path).dpiframe_bad_ids_reset(tag.encode()):
        raise _unknown(tag, path)


def _unknown(tag: str, path: str) -> LookupError:
    return LookupError(f"{path} has given no session the tag {tag!r}; has the file been replaced since it was loaded?")
