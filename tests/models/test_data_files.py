"""Readers of Criteo's and Avazu's formats: real rows, chunks that change nothing, and errors that name the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpiframe.models.data import avazu_rows, criteo_rows, load
from dpiframe.models.data.criteo import DENSE, SPARSE, log_transform

Sample = Callable[[str], Path]


def criteo_line(label: str = "1", number: str = "3", category: str = "68fd1e64", delimiter: str = "\t") -> str:
    return delimiter.join([label, *[number] * 13, *[category] * 26])


def test_criteo_sample_in_full(sample: Sample) -> None:
    data, encoder = load(sample("criteo_sample.csv"), min_count=1)
    assert len(data) == 200
    assert data.labels.shape == (200, 1)
    assert data.labels.sum() == 49
    assert data.schema.dense == DENSE
    assert tuple(item.name for item in data.schema.sparse) == SPARSE
    assert (data.ids > 0).all()
    # The file's first row: I2 is 3, I1 is missing, C1 is 05db9164.
    assert data.dense[0, 1] == np.float32(np.log(4.0))
    assert data.dense[0, 0] == 0
    assert encoder.fields["C1"].encode(["05db9164"])[0] == data.ids[0, 0]
    for item, column in zip(data.schema.sparse, data.ids.T, strict=True):
        assert set(column) == set(range(1, item.vocabulary))


def test_avazu_sample_in_full(sample: Sample) -> None:
    data, _ = load(sample("avazu_sample.csv"), "avazu", min_count=1)
    assert len(data) == 70
    assert len(data.schema.sparse) == 22
    assert data.dense.shape == (70, 0)
    assert set(np.unique(data.labels)) == {0.0, 1.0}


def test_chunks_and_delimiters_change_nothing(criteo_file: Path, tmp_path: Path) -> None:
    whole, encoder = load(criteo_file, min_count=2)
    pieces, other_encoder = load(criteo_file, min_count=2, chunk_rows=7)
    assert encoder == other_encoder
    np.testing.assert_array_equal(whole.ids, pieces.ids)
    np.testing.assert_array_equal(whole.dense, pieces.dense)
    # The challenge's own form: tabs, no header, Windows or Unix line ends.
    lines = criteo_file.read_text().splitlines()[1:]
    (tmp_path / "train.txt").write_text("\r\n".join(lines).replace(",", "\t"))
    tabbed, _ = load(tmp_path / "train.txt", min_count=2)
    np.testing.assert_array_equal(whole.ids, tabbed.ids)
    np.testing.assert_array_equal(whole.labels, tabbed.labels)


def test_an_encoder_carries_over_and_unknown_values_become_zero(criteo_file: Path) -> None:
    first, encoder = load(criteo_file, min_count=1, max_rows=50)
    assert len(first) == 50
    rest, same = load(criteo_file, encoder=encoder)
    assert same is encoder
    assert rest.schema == first.schema
    np.testing.assert_array_equal(rest.ids[:50], first.ids)
    assert (rest.ids[50:] == 0).any()
    assert (rest.ids < [item.vocabulary for item in rest.schema.sparse]).all()


@pytest.mark.parametrize("rows", [1, 7, 10, 14])
def test_the_row_limit_is_exact_across_chunks(rows: int, criteo_file: Path) -> None:
    assert len(load(criteo_file, max_rows=rows, chunk_rows=7, min_count=1)[0]) == rows


def test_hashing_needs_no_pass_and_stays_in_range(criteo_file: Path) -> None:
    stages: list[str] = []
    data, encoder = load(criteo_file, buckets=11, progress=lambda stage, done, total: stages.append(stage))
    assert set(stages) == {"encoding rows"}
    assert data.ids.min() >= 1
    assert data.ids.max() <= 10
    assert {item.vocabulary for item in data.schema.sparse} == {11}
    assert type(encoder).from_dict(encoder.to_dict()) == encoder


def test_progress_counts_bytes_up_to_the_file_size(criteo_file: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    load(criteo_file, chunk_rows=64, progress=lambda *call: calls.append(call))
    size = criteo_file.stat().st_size
    for stage in ("counting values", "encoding rows"):
        done = [call[1] for call in calls if call[0] == stage]
        assert done == sorted(done)
        assert len(done) == 4
        assert done[-1] == size
    assert {call[2] for call in calls} == {size}


def test_log_transform_keeps_order_and_drops_signs_and_gaps() -> None:
    counts = np.array([np.nan, -3, 0, 1, 100], np.float32)
    np.testing.assert_allclose(log_transform(counts), [0, 0, 0, np.log(2), np.log(101)], rtol=1e-6)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([criteo_line(), criteo_line() + "\tmore"], "line 2: 41 cells where 40 are expected"),
        ([criteo_line(), "", criteo_line()], "line 2: 1 cells where 40"),
        ([criteo_line()] * 4 + [criteo_line(label="2")], "line 5: label '2' is neither 0 nor 1"),
        ([criteo_line()] * 4 + [criteo_line(number="many")], "line 5, column 2: 'many' is no number"),
        (["\t".join(criteo_line().split("\t")[1:])], "39 columns starting with '3' are not Criteo's 40"),
        (["label," + ",".join(f"x{index}" for index in range(39))], "starting with 'label' are not Criteo's"),
        ([""], "the first line is empty"),
    ],
)
def test_a_malformed_criteo_file_names_its_line(lines: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"train\.txt.*" + message):
        list(criteo_rows(path, chunk_rows=3))


def test_compressed_bytes_are_called_that(tmp_path: Path) -> None:
    (tmp_path / "train.gz").write_bytes(b"\x1f\x8b\x08\x00\xff\xfe\n")
    with pytest.raises(ValueError, match=r"train\.gz, line 1: not UTF-8 text; unpack"):
        list(criteo_rows(tmp_path / "train.gz"))


def test_a_missing_file_and_an_unknown_format_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        load(tmp_path / "none")
    with pytest.raises(ValueError, match="unknown format 'libsvm'; choose one of criteo, avazu"):
        load(tmp_path / "none", "libsvm")


def test_a_header_alone_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",".join(["label", *DENSE, *SPARSE]) + "\n")
    with pytest.raises(ValueError, match=r"t\.csv: no rows"):
        load(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_count": 0}, "minimum count"),
        ({"buckets": 1}, "2 buckets"),
        ({"max_rows": 0}, "max_rows is 0; it must be at least 1"),
        ({"max_rows": -5}, "max_rows is -5; it must be at least 1"),
    ],
)
def test_bad_encoding_arguments_are_errors(arguments: dict[str, int], message: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(criteo_line() + "\n")
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "t.txt", **arguments)  # type: ignore[arg-type]


AVAZU = "id,click,hour,C1,banner_pos\n"


def test_avazu_hours_become_hour_weekday_and_weekend(tmp_path: Path) -> None:
    # 21 October 2014 was a Tuesday, the 25th a Saturday.
    (tmp_path / "train").write_text(AVAZU + "9,1,14102100,1005,0\n8,0,14102523,1005,1\n")
    (rows,) = avazu_rows(tmp_path / "train")
    assert list(rows.categories) == ["hour", "weekday", "weekend", "C1", "banner_pos"]
    assert rows.categories["hour"] == ["00", "23"]
    assert rows.categories["weekday"] == ["1", "5"]
    assert rows.categories["weekend"] == ["0", "1"]
    np.testing.assert_array_equal(rows.labels, [1, 0])


@pytest.mark.parametrize("hour", ["14102124", "14133100", "1410210", "", "141021 1", "monday"])
def test_a_bad_hour_names_its_line(hour: str, tmp_path: Path) -> None:
    (tmp_path / "train").write_text(AVAZU + f"9,1,14102100,1005,0\n8,0,{hour},1005,1\n")
    with pytest.raises(ValueError, match="line 3: hour"):
        list(avazu_rows(tmp_path / "train"))


@pytest.mark.parametrize(("header", "message"), [("id,a,b\n", "no column 'click'"), ("click,a,a\n", "a column twice")])
def test_avazu_needs_a_header(header: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "train").write_text(header + "1,2,3\n")
    with pytest.raises(ValueError, match=message):
        list(avazu_rows(tmp_path / "train"))


@pytest.mark.parametrize("name", ["weekday", "weekend"])
@pytest.mark.parametrize("header", ["click,hour,{}\n", "click,{},hour\n"])
def test_a_column_named_as_one_made_of_hour_is_refused(header: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "train"
    path.write_text(header.format(name) + "1,14102100,14102100\n")
    with pytest.raises(
        ValueError, match=f"train, line 1: column '{name}' has the name of .*'hour'; rename or remove it"
    ):
        list(avazu_rows(path))
    # Without an hour nothing is made of it.
    path.write_text(f"click,{name}\n1,5\n")
    (rows,) = avazu_rows(path)
    assert rows.categories == {name: ("5",)}


def test_a_byte_order_mark_is_no_part_of_the_first_cell(tmp_path: Path) -> None:
    path = tmp_path / "train"
    path.write_text("click,a\n1,x\n", encoding="utf-8-sig")
    (rows,) = avazu_rows(path)
    assert rows.categories == {"a": ("x",)}
    path.write_text(",".join(["label", *DENSE, *SPARSE]) + "\n" + criteo_line(delimiter=",") + "\n", "utf-8-sig")
    assert len(next(criteo_rows(path)).labels) == 1
    path.write_text(criteo_line() + "\n", "utf-8-sig")
    np.testing.assert_array_equal(next(criteo_rows(path)).labels, [1])
