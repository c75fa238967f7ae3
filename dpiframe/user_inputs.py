"""Inputs that the user gives for a model, as an .npz file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from dpiframe.errors import UsageError
from dpiframe.input_specs import InputSpec
from dpiframe.inputs import Array, Case


def load_user_inputs(path: Path, specs: Sequence[InputSpec]) -> Case:
    """One case from an .npz file that holds an array for each input, under its name.

    Raises UsageError when the file can't be read, is no .npz file, lacks an input, or holds one that is no array or has
    another type, rank or fixed size.
    """
    try:
        archive = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(f"--inputs {path}: no such file") from None
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"--inputs {path}: not a readable .npz file: {error}".replace("\n", " ")) from None
    except ValueError:
        # whatever is no file of NumPy's is taken for a pickle, which nobody should load
        archive = None
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise UsageError(f"--inputs {path}: not an .npz file; write it with numpy.savez, one array an input")
    with archive:
        arrays = {spec.name: _array(archive, spec.name, path) for spec in specs if spec.name in archive.files}
    return Case(f"the inputs in {path.name}", {spec.name: _checked(arrays, spec, path) for spec in specs})


def _array(archive: np.lib.npyio.NpzFile, name: str, path: Path) -> Array:
    try:
        array = archive[name]
    except ValueError:
        array = None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(f"--inputs {path}: '{name}' can't be read: {error}".replace("\n", " ")) from None
    # a member of the archive that is no array comes as bytes
    if not isinstance(array, np.ndarray):
        raise UsageError(
            f"--inputs {path}: '{name}' holds Python objects or is no array; give an array of one type of number, "
            "or of str, and lists of equal length"
        )
    return array


def _checked(arrays: Mapping[str, Array], spec: InputSpec, path: Path) -> Array:
    if spec.name not in arrays:
        raise UsageError(f"--inputs {path}: holds no array '{spec.name}', an input of the model")
    array = arrays[spec.name]
    if (array.dtype.kind != "U") if spec.dtype is None else (array.dtype != spec.dtype):
        wanted = "str" if spec.dtype is None else spec.dtype.name
        raise UsageError(f"--inputs {path}: '{spec.name}' is {array.dtype.name}; the model takes {wanted}")
    fits = len(array.shape) == len(spec.shape) and all(
        not isinstance(d, int) or d == n for d, n in zip(spec.shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("?" if d is None else str(d) for d in spec.shape)
        raise UsageError(f"--inputs {path}: '{spec.name}' has shape {list(array.shape)}; the model takes [{wanted}]")
    return array
