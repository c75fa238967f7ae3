"""MovieLens-100K: 100,000 ratings with user and film fields, small to fetch and large enough for accuracy figures."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from ..schema import FeatureSchema, MultiHotField, SequenceField, SparseField
from .dataset import Dataset
from .text import first_cells, text_chunks

# The `recbole` wheel carries the data set in this folder.
PACKAGE = "recbole"
_FOLDER = "recbole/dataset_example/ml-100k"
_FILES = ("ml-100k.inter", "ml-100k.item", "ml-100k.user")
# The folder's name in the cache.
_CACHED = "ml-100k"
_GENRES = 6
CLICK_RATING = 4


def default_cache() -> Path:
    """$XDG_CACHE_HOME/dpiframe, ~/.cache/dpiframe without it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dpiframe"


def movielens_files(folder: str | Path | None = None) -> list[Path]:
    """The three files that `read_movielens` reads in a folder, without one in that of `fetch_movielens`."""
    base = Path(folder) if folder is not None else default_cache() / _CACHED
    return [base / name for name in _FILES]


def fetch_movielens(cache: Path | None = None) -> Path:
    """Gets the data set out of the `recbole` wheel, which pip downloads (2 MB, without dependencies), once.

    Args:
        cache: folder that keeps it; `default_cache()` without it.

    Returns:
        The folder with the three files.

    Raises:
        RuntimeError: pip can't fetch the wheel, or it lacks the files.
    """
    folder = (cache or default_cache()) / _CACHED
    if all((folder / name).is_file() for name in _FILES):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run([*command, "--dest", temporary, PACKAGE], capture_output=True, text=True, check=False)
        wheels = list(Path(temporary).glob("*.whl"))
        if done.returncode or not wheels:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise RuntimeError(f"pip could not download {PACKAGE}: {lines[-1] if lines else 'it gave no reason'}")
        fresh = Path(temporary) / "unpacked"
        fresh.mkdir()
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in _FILES:
                try:
                    (fresh / name).write_bytes(wheel.read(f"{_FOLDER}/{name}"))
                except KeyError:
                    raise RuntimeError(f"{wheels[0].name} does not hold {_FOLDER}/{name}") from None
        folder.mkdir(exist_ok=True)
        for name in _FILES:
            (fresh / name).replace(folder / name)
    return folder


def read_movielens(folder: str | Path, *, dim: int = 16, history: int = 20) -> Dataset:
    """Reads the three files into one data set, ordered by time; a rating of 4 or 5 is a click.

    Fields: user_id, item_id, age, gender, occupation, zip_code, release_year; genres (multi-hot, mean); liked
    (sequence on item_id's table: the last films that the user clicked before this rating).

    Args:
        folder: with ml-100k.inter, .item and .user.
        dim: embedding length of every field.
        history: L, the length of `liked`.

    Raises:
        FileNotFoundError: one of the files is missing.
        ValueError: a malformed file, or a rating of a user or film that isn't listed; names file and line.
    """
    inter_file, item_file, user_file = movielens_files(folder)
    ratings = _table(inter_file, ("user_id", "item_id", "rating", "timestamp"))
    users = _table(user_file, ("user_id", "age", "gender", "occupation", "zip_code"))
    items = _table(item_file, ("item_id", "release_year", "class"))
    order = np.argsort(_numbers(ratings["timestamp"], inter_file, "timestamp"), kind="stable")
    clicked = _numbers(ratings["rating"], inter_file, "rating")[order] >= CLICK_RATING
    user = _rows_of(ratings["user_id"], inter_file, "user_id", users["user_id"], user_file)[order]
    item = _rows_of(ratings["item_id"], inter_file, "item_id", items["item_id"], item_file)[order]

    columns: dict[str, np.ndarray] = {}
    for name in ("user_id", "item_id", "age", "gender", "occupation", "zip_code", "release_year"):
        table, row = (items, item) if name in items else (users, user)
        _, numbers = np.unique(table[name], return_inverse=True)
        columns[name] = numbers.reshape(-1)[row] + 1
    genre_names, genres = _genres(items["class"])
    liked = _histories(user, columns["item_id"], clicked, history)

    sizes = {name: int(values.max()) + 1 for name, values in columns.items()}
    # Ids of films that nobody rated still belong to the table.
    sizes["item_id"] = len(items["item_id"]) + 1
    schema = FeatureSchema(
        sparse=tuple(SparseField(name, size, dim) for name, size in sizes.items()),
        multi_hot=(MultiHotField("genres", len(genre_names) + 1, dim, length=_GENRES, pooling="mean"),),
        sequences=(SequenceField("liked", sizes["item_id"], dim, table="item_id", length=history, target="item_id"),),
    )
    ids = np.concatenate([np.stack(list(columns.values()), axis=1), genres[item], liked], axis=1).astype(np.int64)
    return Dataset(schema, ids, np.empty((len(ids), 0), np.float32), clicked.astype(np.float32)[:, None])


def _table(path: Path, needed: tuple[str, ...]) -> dict[str, np.ndarray]:
    """A RecBole atomic file: a header of name:type, tab-separated.

    Raises:
        ValueError: the header lacks a column that is needed, or no row follows it; names file and line.
    """
    names = [cell.partition(":")[0] for cell in first_cells(path)]
    missing = [name for name in needed if name not in names]
    if missing:
        raise ValueError(
            f"{path}, line 1: no column {', '.join(missing)}; the first line must name the columns, "
            f"tab-separated: {', '.join(needed)}"
        )
    chunks = list(text_chunks(path, width=len(names), skip_header=True))
    if not chunks:
        raise ValueError(f"{path}, line 2: no rows follow the header")
    parts = zip(*([np.array(column) for column in chunk.columns] for chunk in chunks), strict=True)
    return dict(zip(names, map(np.concatenate, parts), strict=True))


def _line(row: int) -> int:
    """The line of a table's row: the header is line 1, and each later line is one row."""
    return row + 2


def _numbers(cells: np.ndarray, path: Path, name: str) -> np.ndarray:
    """A column as float64; float32 can't tell the seconds of a timestamp apart."""
    numbers = np.empty(len(cells), np.float64)
    for row, cell in enumerate(cells.tolist()):
        try:
            numbers[row] = float(cell)
        except ValueError:
            numbers[row] = np.nan
        if not np.isfinite(numbers[row]):
            raise ValueError(f"{path}, line {_line(row)}: {name} {cell!r} is no number")
    return numbers


def _rows_of(cells: np.ndarray, path: Path, name: str, listed: np.ndarray, listing: Path) -> np.ndarray:
    """The row that lists each value, int64."""
    rows: dict[str, int] = {}
    for row, value in enumerate(listed.tolist()):
        if rows.setdefault(value, row) != row:
            raise ValueError(f"{listing}, line {_line(row)}: {name} {value!r} is in line {_line(rows[value])} already")
    found = np.empty(len(cells), np.int64)
    for row, value in enumerate(cells.tolist()):
        if value not in rows:
            raise ValueError(f"{path}, line {_line(row)}: {name} {value!r} is not in {listing.name}")
        found[row] = rows[value]
    return found


def _genres(cells: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Genre ids of each film, int64 [films, _GENRES], 0 where it has fewer."""
    lists = [cell.split() for cell in cells]
    names = sorted({genre for genres in lists for genre in genres})
    numbers = {name: number for number, name in enumerate(names, start=1)}
    ids = np.zeros((len(lists), _GENRES), np.int64)
    for row, genres in enumerate(lists):
        known = [numbers[genre] for genre in genres[:_GENRES]]
        ids[row, : len(known)] = known
    return names, ids


def _histories(users: np.ndarray, items: np.ndarray, clicked: np.ndarray, length: int) -> np.ndarray:
    """Each row's user's last clicked items before it, oldest first, padded with 0 at the end: int64 [N, length]."""
    past: dict[int, list[int]] = {}
    histories = np.zeros((len(users), length), np.int64)
    for row, (user, item, click) in enumerate(zip(users.tolist(), items.tolist(), clicked.tolist(), strict=True)):
        last = past.setdefault(user, [])[-length:]
        histories[row, : len(last)] = last
        if click:
            past[user].append(item)
    return histories
