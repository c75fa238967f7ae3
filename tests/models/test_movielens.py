"""MovieLens-100K: the three files become fields, and no history holds the future."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dpiframe.models.data import fetch_movielens, read_movielens
from dpiframe.models.data import movielens as module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def write(name: str, *lines: str) -> None:
        (tmp_path / f"ml-100k.{name}").write_text("\n".join(lines).replace(" | ", "\t") + "\n")

    write(
        "user",
        "user_id:token | age:token | gender:token | occupation:token | zip_code:token",
        "7 | 24 | M | technician | 85711",
        "8 | 53 | F | other | 94043",
    )
    write(
        "item",
        "item_id:token | movie_title:token_seq | release_year:token | class:token_seq",
        "1 | Toy Story | 1995 | Animation Comedy",
        "2 | GoldenEye | 1995 | Action",
        "3 | Nobody Rated | 1990 | ",
    )
    # Out of order in time, as the real file is.
    write(
        "inter",
        "user_id:token | item_id:token | rating:float | timestamp:float",
        "7 | 2 | 3 | 30",
        "7 | 1 | 5 | 10",
        "8 | 1 | 4 | 20",
        "7 | 1 | 4 | 40",
        "8 | 2 | 1 | 50",
    )
    return tmp_path


def test_rows_are_in_time_order_with_clicks_from_ratings(folder: Path) -> None:
    data = read_movielens(folder, history=2)
    assert data.labels[:, 0].tolist() == [1, 1, 0, 1, 0]
    assert [item.name for item in data.schema.id_fields] == [
        "user_id", "item_id", "age", "gender", "occupation", "zip_code", "release_year", "genres", "liked",
    ]  # fmt: skip
    users, items = data.ids[:, 0], data.ids[:, 1]
    assert users.tolist() == [1, 2, 1, 1, 2]
    assert items.tolist() == [1, 1, 2, 1, 2]


def test_a_history_holds_earlier_clicks_of_the_same_user_only(folder: Path) -> None:
    data = read_movielens(folder, history=2)
    # User 7 clicks film 1, doesn't click film 2, clicks film 1 again; user 8 clicks film 1.
    assert data.ids[:, -2:].tolist() == [[0, 0], [0, 0], [1, 0], [1, 0], [1, 0]]


def test_genres_are_multi_hot_and_tables_hold_every_film(folder: Path) -> None:
    data = read_movielens(folder, history=2)
    (genres,) = data.schema.multi_hot
    assert genres.vocabulary == 4
    start = next(start for item, start in data.schema.columns() if item.name == "genres")
    assert data.ids[0, start : start + genres.width].tolist() == [2, 3, 0, 0, 0, 0]
    assert data.schema.tables["item_id"][0] == 4
    assert (
        data.ids < np.repeat([f.vocabulary for f in data.schema.id_fields], [f.width for f in data.schema.id_fields])
    ).all()


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "ml-100k.item").unlink()
    with pytest.raises(FileNotFoundError, match=r"ml-100k\.item"):
        read_movielens(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("inter", "7\t1\t5\t10", "7\t99999\t5\t10", "line 3: item_id '99999' is not in ml-100k.item"),
        ("inter", "7\t1\t5\t10", "99999\t1\t5\t10", "line 3: user_id '99999' is not in ml-100k.user"),
        ("inter", "7\t1\t5\t10", "7\t1\tfive\t10", "line 3: rating 'five' is no number"),
        ("inter", "7\t1\t5\t10", "7\t1\tnan\t10", "line 3: rating 'nan' is no number"),
        ("inter", "7\t1\t5\t10", "7\t1\t5\t", "line 3: timestamp '' is no number"),
        ("inter", "7\t1\t5\t10", "7\t1\t5", "line 3: 3 cells where 4 are expected"),
        ("inter", "timestamp:float", "time:float", "line 1: no column timestamp; the first line must name"),
        ("user", "user_id:token", "7", "line 1: no column user_id"),
        ("item", "class:token_seq", "genres:token_seq", "line 1: no column class"),
        ("item", "2\tGoldenEye", "1\tGoldenEye", "line 3: item_id '1' is in line 2 already"),
    ],
)
def test_a_malformed_file_names_its_line(name: str, old: str, new: str, message: str, folder: Path) -> None:
    path = folder / f"ml-100k.{name}"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}, {re.escape(message)}"):
        read_movielens(folder)


@pytest.mark.parametrize("name", ["inter", "item", "user"])
def test_a_header_alone_is_no_data(name: str, folder: Path) -> None:
    path = folder / f"ml-100k.{name}"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(ValueError, match=rf"ml-100k\.{name}, line 2: no rows"):
        read_movielens(folder)


def test_what_is_there_is_not_fetched_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("pip was called")

    monkeypatch.setattr(subprocess, "run", refuse)
    cache = tmp_path / "cache"
    (cache / "ml-100k").mkdir(parents=True)
    for name in ("user", "item", "inter"):
        (folder / f"ml-100k.{name}").rename(cache / "ml-100k" / f"ml-100k.{name}")
    assert fetch_movielens(cache) == cache / "ml-100k"


def test_a_failed_download_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "WARNING: one\nERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(RuntimeError, match=r"pip could not download recbole: ERROR: No matching distribution$"):
        fetch_movielens(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.network
def test_the_real_data_set(tmp_path: Path) -> None:
    data = read_movielens(module.fetch_movielens(tmp_path))
    assert data.ids.shape == (100_000, 7 + 6 + 20)
    assert data.labels.sum() == 55_375
    assert {item.name: item.vocabulary for item in data.schema.sparse}["user_id"] == 944
