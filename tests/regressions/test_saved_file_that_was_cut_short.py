"""A ``save`` file that was torn is put right where it was ours, and otherwise named with line and rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormproof import lab

SCENARIO = lab.Scenario(clients=2, arrival_rps=10, duration=2)


def compare(path: Path, runs: int) -> str:
    return lab.compare({"none": None}, SCENARIO, seeds=range(runs), save=path).to_json()


def lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def test_lost_newline_at_the_end_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    compare(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    expected = compare(tmp_path / "other.jsonl", 3)
    assert compare(path, 3) == expected
    assert path.read_bytes().startswith(whole) and lines(path) == 4, "three seeds and the calm leg"
    assert compare(path, 3) == expected


@pytest.mark.parametrize("tail", [b"\xff\xfe", b"", b"\xc3"])
@pytest.mark.parametrize("kept", [1, 5, 40])
def test_torn_line_is_cut_at_any_byte(tmp_path: Path, tail: bytes, kept: int) -> None:
    path = tmp_path / "kept.jsonl"
    compare(path, 2)
    whole = path.read_bytes()
    first, _, _ = whole.partition(b"\n")
    path.write_bytes(first + b"\n" + whole[:kept] + (tail if kept == 40 else b""))
    compare(path, 2)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (b"my notes", 1),
        (b"\xff\xfe\x00", 1),
        (b'{"key":"a"}\n\xff\n', 2),
        (b'{"key":"a"}\n{"key":"b"}{"key":"c"}\n', 2),
        (b'{"key":"a"}\nmine', 2),
    ],
)
def test_foreign_line_is_named_and_kept(tmp_path: Path, content: bytes, number: int) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"save: line {number} of .*kept\.jsonl must be JSON in UTF-8, got b"
    ):
        compare(path, 1)
    assert path.read_bytes() == content


@pytest.mark.long
def test_torn_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kept.parquet"
    compare(path, 1)
    assert [file.name for file in tmp_path.iterdir()] == ["kept.parquet"]
    whole = path.read_bytes()
    for torn in (whole[: len(whole) // 2], b"", b"notes"):
        path.write_bytes(torn)
        with pytest.raises(
            ValueError, match=r"save: .*kept\.parquet must be a Parquet file of an experiment: "
        ):
            compare(path, 1)
        assert path.read_bytes() == torn


@pytest.mark.long
def test_foreign_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "series.parquet"
    lab.simulate(None, SCENARIO).to_parquet(path)
    with pytest.raises(ValueError, match=r"save: .*series\.parquet must be a Parquet file of an experiment"):
        compare(path, 1)
