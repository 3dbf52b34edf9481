"""Every parser against its fuzz target, fed by Hypothesis. `make fuzz` feeds the same targets longer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support.sizes import sized
from verification.fuzzing.__main__ import main
from verification.fuzzing.catalog import TARGETS
from verification.fuzzing.inputs import encoded, reproduction, seeds, spelt, strategy, unspelt
from verification.fuzzing.model import Broken, Target, TooSlow, repeated

LONG = 5_000


@pytest.mark.sized
@pytest.mark.parametrize("name", TARGETS)
def test_parser_keeps_its_rule_for_any_input(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=sized(100, 30), deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy(target))
    def feed(data: bytes) -> None:
        target.feed(data)

    feed()


@pytest.mark.parametrize("name", TARGETS)
def test_fuzz_target_accepts_each_of_its_seeds(name: str) -> None:
    for data in seeds(TARGETS[name]):
        TARGETS[name].feed(data)


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_long_inputs_are_read_in_time(name: str) -> None:
    """Each word and each seed, as often as it fits into 5,000 bytes."""
    target = TARGETS[name]
    for word in (*target.words, *target.seeds):
        target.feed(encoded(word) * (LONG // max(1, len(encoded(word)))), LONG)


def test_input_that_takes_too_long_is_reported() -> None:
    slow = Target("slow", "nothing", lambda data: sum(range(3_000_000)), (), (), slowest_s=0.001)
    with pytest.raises(TooSlow, match="slow: 1 bytes took"):
        slow.feed(b"x")


def test_repeated_inputs_are_bounded() -> None:
    assert repeated(b"\xfe\x03ab", 100) == b"ab" * 8
    assert repeated(b"\xfe\x0cab", 9) == b"ab" * 4 and repeated(b"\xfe\xff" + b"x" * 300, 50) == b""
    assert repeated(b"\xfe", 9) == b"\xfe" and repeated(b"plain", 4) == b"plai"


def test_reproduction_line_reproduces(capsys: pytest.CaptureFixture[str]) -> None:
    data = b"\xff\x00 '\"\n\xfe"
    target = TARGETS["duration"]
    assert unspelt(spelt(data)) == data
    words = reproduction(target, data).rpartition("python -m verification.fuzzing ")[2].split()
    assert main(words) == 0
    assert capsys.readouterr().out == "holds\n"


def test_broken_target_is_reported_with_its_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(data: bytes) -> None:
        if b"7" in data:
            raise Broken("must not hold a 7")

    monkeypatch.setitem(TARGETS, "broken", Target("broken", "text without a 7", check, ("1",), ("7", "8")))
    assert main(["broken", "--hypothesis", "--inputs", "200"]) == 1
    said = capsys.readouterr().out
    assert "Broken: must not hold a 7" in said and "BROKEN  broken" in said
    word = said.rpartition("--input ")[2].split()[0]
    with pytest.raises(Broken):
        main(["broken", "--input", word])


def test_missing_atheris_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    figures = tmp_path / "fuzz.json"
    monkeypatch.setattr("verification.fuzzing.__main__.FIGURES", figures)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["percentile", "--inputs", "20"]) == 0
    said = capsys.readouterr().out
    assert "Not guided by coverage" in said and "atheris is not installed" in said
    assert not figures.exists()


@pytest.mark.long
def test_guided_runs_find_a_planted_fault(tmp_path: Path, measured: Callable[[str], None]) -> None:
    """Three characters in a row, each behind a branch of its own: found by guidance, not by luck."""
    pytest.importorskip("atheris", reason="other platform: atheris has no wheel here")
    (tmp_path / "planted.py").write_text(
        "from verification.fuzzing.model import Target\n"
        "def check(data):\n"
        "    if data[:1] == b'h':\n"
        "        if data[1:2] == b'f':\n"
        "            if data[2:3] == b'!':\n"
        "                raise KeyError('planted')\n"
        "TARGETS = (Target('planted', 'text', check, ('a',), ('b',)),)\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "verification.fuzzing.guided",
            "planted",
            "planted",
            "300000",
            "60",
            "1",
            str(tmp_path / "work"),
        ],
        cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0 and "KeyError: 'planted'" in done.stdout
    assert (
        "input: b'hf!" in done.stdout
        and "repeat it: python -m verification.fuzzing planted --input " in done.stdout
    )
    measured("a fault behind three nested branches found within 300,000 guided inputs")
