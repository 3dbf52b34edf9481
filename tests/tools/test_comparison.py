"""`python -m verification.comparison`: the harness, what Stormproof's own column says, and that the page
shows every probe."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from verification.comparison.__main__ import faults, main
from verification.comparison.catalog import GAPS, GROUPS, PROBES
from verification.comparison.model import AS_IT_SHOULD, BROKEN, NOT, NOT_OFFERED, Cell, Probe, exactly
from verification.comparison.page import page, text
from verification.comparison.run import cell, in_a_process, keys, run

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"

#: Adds a probe of one's own to the catalog, then runs it as `verification.comparison.single_cell` does.
ONE = """
import sys, time
from verification.comparison import catalog
from verification.comparison.model import Probe
def way():
    {body}
probe = Probe("mine", "retry", "?", "!", lambda n: (str(n), n == 4))
probe.ways["stormproof"] = way
catalog.PROBES["mine"] = probe
from verification.comparison.single_cell import main
main("mine", "stormproof")
"""


def ran(body: str, limit_s: float = 30.0) -> Cell:
    return in_a_process([sys.executable, "-c", ONE.format(body=body)], limit_s)


def test_probe_that_obeys_its_rule_is_marked_good() -> None:
    assert ran("return 4") == Cell("4", AS_IT_SHOULD)


def test_probe_that_breaks_its_rule_is_marked() -> None:
    assert ran("return 5") == Cell("5", NOT)


@pytest.mark.long
def test_probe_that_hangs_is_an_outcome() -> None:
    assert ran("time.sleep(60)", limit_s=3.0) == Cell("hangs", NOT)


def test_probe_that_raises_gives_no_result_for_the_library() -> None:
    assert ran("raise KeyError('gone')") == Cell("KeyError: 'gone'", BROKEN)


def test_process_that_dies_is_a_broken_cell() -> None:
    outcome = in_a_process([sys.executable, "-c", "raise SystemExit('no such module')"], 30)
    assert outcome == Cell("no such module", BROKEN)


def test_output_of_a_probe_is_not_its_outcome() -> None:
    assert ran("print('noise'); print('{}'); return 4") == Cell("4", AS_IT_SHOULD)


def test_thread_left_hanging_does_not_keep_the_process() -> None:
    body = "import threading; threading.Thread(target=time.sleep, args=(60,)).start(); return 4"
    assert ran(body) == Cell("4", AS_IT_SHOULD)


def test_missing_library_is_reported_as_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verification.comparison.run.installed", lambda library: None)
    assert cell(("attempts-counted", "tenacity")).fact == "not installed"


def test_cells_come_in_the_requested_order() -> None:
    wanted = [(str(n), "x") for n in range(20)]
    seen = list(run(wanted, jobs=4, each=lambda key: Cell(key[0], NOT)))
    assert [(key, cell.fact) for key, cell in seen] == [(key, key[0]) for key in wanted]


def test_judge_is_the_same_for_every_library() -> None:
    probe = Probe("p", "retry", "?", "!", exactly(4, "call"))
    probe.on({"a": 4, "b": 1, "c": 4}, lambda setup: setup, without={"c": "no such thing"})
    probe.lacks("d")
    assert probe.cell("a") == Cell("4 calls", AS_IT_SHOULD)
    assert probe.cell("b") == Cell("1 call", NOT)
    assert probe.cell("c") == Cell("no such thing", NOT_OFFERED)
    assert probe.cell("d") == Cell("not offered", NOT_OFFERED)


def test_faults_are_broken_probes_and_rules_that_stormproof_breaks() -> None:
    gap = next(iter(GAPS))
    assert faults({(gap, "stormproof"): Cell("", NOT), ("generator", "tenacity"): Cell("", NOT)}) == []
    assert len(faults({("generator", "tenacity"): Cell("", BROKEN)})) == 1
    assert len(faults({("generator", "stormproof"): Cell("", NOT)})) == 1
    assert len(faults({("retry-after", "stormproof.aiohttp"): Cell("", NOT_OFFERED)})) == 1
    # A gap that was closed has to leave the list.
    assert len(faults({(gap, "stormproof"): Cell("", AS_IT_SHOULD)})) == 1


def test_unknown_probe_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["cancelled-prob"])
    assert stopped.value.code == 2
    assert "cancelled-prob" in capsys.readouterr().err


def test_list_names_every_probe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(PROBES)


@pytest.mark.parametrize("name", PROBES)
def test_every_library_of_the_table_is_probed_or_listed_as_lacking(name: str) -> None:
    probe = PROBES[name]
    columns = {group.name: set(group.columns) for group in GROUPS}[probe.group]
    assert set(probe.ways) | set(probe.lacking) == columns
    assert not set(probe.ways) & set(probe.lacking)


def test_pipe_in_a_cell_does_not_end_the_column() -> None:
    assert text(Cell("a | b", NOT)) == "✗ a \\| b"


def test_page_on_disk_has_every_probe_library_and_rule() -> None:
    """Everything but the cells is what the probes would write today; `make rivals` writes it anew."""
    on_disk = PAGE.read_text(encoding="utf-8")
    today = page({key: Cell("", AS_IT_SHOULD) for key in keys()})

    def frame(text: str) -> list[str]:
        """The page without its versions, and of each row only the name."""
        lines = [line for line in text.splitlines() if not line.startswith("Python ")]
        return [re.sub(r"^(\| `[a-z0-9-]+` \|).*", r"\1", line) for line in lines]

    assert frame(on_disk) == frame(today)
    rows = [line for line in on_disk.splitlines() if line.startswith("| `")]
    cells = [cell for row in rows for cell in row.split(" | ")[1:]]
    assert len(cells) == len(keys())
    assert all(cell.startswith(("✓ ", "✗ ", "- ")) for cell in cells)


@pytest.mark.long
def test_stormproof_breaks_no_rule_of_the_comparison() -> None:
    """Every probe on Stormproof's own columns, as `python -m verification.comparison` runs them."""
    ours = [key for key in keys() if key[1].startswith("stormproof")]
    cells = dict(run(ours))
    assert {name for name, _ in cells} == set(PROBES)
    assert faults(cells) == []
