"""``stormproof explain``: its figures against hand-made ones, its rule for the SLO, its picture, its
advice."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

import stormproof as sp
from stormproof import cli
from stormproof.cli import _explain_view
from stormproof.cli._explain_facts import Facts, advice, notes
from stormproof.cli._style import Style, in_units

PLAIN = Style(False)
FILE = """
[policies.fraud-score]
deadline = "5s"
retry = { attempts = 4, backoff = { base = "100ms", cap = "2s" } }
timeout = "500ms"

[policies.lookup]
deadline = "1s"
retry = { attempts = 2, backoff = { base = "50ms" } }
timeout = "200ms"

[policies.nightly]
retry = { on = "myapp.errors.Busy", attempts = 6, budget = "none", backoff = { kind = "constant", wait = 1 } }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stormproof.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def facts(*strategies: Any, slo: float | None = None) -> Facts:
    return Facts("p", sp.Policy(*strategies), slo)


def explained(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["explain", *argv, "--json"])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, data


# The figures.


def test_explained_schedule_is_that_of_the_backoff() -> None:
    found = facts(sp.Retry(attempts=4, backoff=sp.Exponential(0.1, cap=0.3)), sp.Timeout(1))
    rows = [(s.number, s.low, s.mean, s.high, s.starts) for s in found.schedule]
    expected = [(1, 0, 0.05, 0.1, 0.1), (2, 0, 0.1, 0.2, 1.3), (3, 0, 0.15, 0.3, 2.6)]
    assert [pytest.approx(row) for row in expected] == rows


def test_retry_time_counts_waits_and_the_attempts_after_the_first() -> None:
    waits = 0.1 + 0.2 + 0.4
    retry = sp.Retry(attempts=4, backoff=sp.Exponential(0.1))
    assert facts(retry).retry_s == pytest.approx(waits)
    assert facts(retry, sp.Timeout(0.5)).retry_s == pytest.approx(waits + 3 * 0.5)
    assert facts(sp.Deadline(1), retry, sp.Timeout(0.5)).retry_s == 1.0
    short = sp.Retry(attempts=4, backoff=sp.Exponential(0.1), within=0.3)
    assert facts(short, sp.Timeout(0.5)).retry_s == pytest.approx(0.3 + 0.5)
    assert facts(sp.Retry(attempts=None, within=7)).retry_s == 7.0
    assert facts(sp.Timeout(1)).retry_s == 0.0


@pytest.mark.parametrize(("slo", "fits"), [(None, None), (2.1, True), (2.0, False), (0.7 * 3, True)])
def test_retrying_may_take_a_third_of_the_slo(slo: float | None, fits: bool | None) -> None:
    assert facts(sp.Retry(attempts=4, backoff=sp.Exponential(0.1)), slo=slo).fits is fits


def test_retries_that_can_never_happen_are_reported() -> None:
    found = facts(sp.Retry(attempts=5, backoff=sp.Constant(1.0), within=2.5), sp.Timeout(1))
    assert [bool(step.why_not) for step in found.schedule] == [False, False, True, True]
    assert "retry 3 and later never happen: past within=2500ms" in advice(found)
    found = facts(sp.Deadline(1), sp.Retry(attempts=2, backoff=sp.Constant(1.0)))
    assert found.schedule[0].why_not == "past the deadline of 1s"


def test_endless_and_very_many_attempts_have_a_bounded_table() -> None:
    assert len(facts(sp.Retry(attempts=None, within=60)).schedule) == 10
    assert len(facts(sp.Retry(attempts=5000)).schedule) == 50


@pytest.mark.parametrize(
    ("strategies", "limits"),
    [
        ([sp.Deadline(5), sp.Retry(on=OSError), sp.Timeout(1)], "Deadline and Timeout do"),
        ([sp.Timeout(1)], "Timeout does"),
        ([sp.Deadline(5), sp.Timeout(1, thread=True)], "Deadline does"),
    ],
)
def test_notes_say_that_limits_do_not_interrupt_plain_functions(strategies: list[Any], limits: str) -> None:
    (note,) = notes(facts(*strategies))
    assert note.startswith(f"{limits} not interrupt a plain (not async) function")


def test_notes_are_empty_where_threads_are_abandoned() -> None:
    assert notes(facts(sp.Retry(on=OSError), sp.Timeout(1, thread=True))) == []


# The advice, taken.


def test_advice_makes_the_policy_fit_its_slo() -> None:
    before = facts(sp.Retry(attempts=6, backoff=sp.Exponential(0.1)), sp.Timeout(0.2), slo=3)
    assert before.fits is False
    (how,) = [line for line in advice(before) if line.startswith("to fit")]
    assert "attempts = 3 " in how and 'within = "800ms"' in how
    for change in ({"attempts": 3}, {"within": 0.8}):
        changed = facts(*before.policy.with_(**change).strategies, slo=3)
        assert changed.fits is True
    assert facts(*before.policy.with_(attempts=4).strategies, slo=3).fits is False


def test_explain_advises_when_not_even_one_retry_fits_the_slo() -> None:
    found = facts(sp.Retry(attempts=3, backoff=sp.Constant(1, jitter="none")), sp.Timeout(1), slo=1.5)
    assert advice(found)[0].startswith("even one retry takes up to 2 s, and the SLO leaves 500 ms")


def test_each_weakness_has_its_advice() -> None:
    def about(*strategies: Any) -> str:
        return "\n".join(advice(facts(*strategies)))

    assert about(sp.Retry(), sp.Timeout(1)) == ""
    assert "nothing is ever tried again" in about(sp.Timeout(1))
    assert "add a timeout" in about(sp.Retry())
    assert "multiplies the load by 4" in about(sp.Retry(budget=None), sp.Timeout(1))
    assert "without jitter" in about(sp.Retry(backoff=sp.Constant(1)), sp.Timeout(1))
    assert "retries at once" in about(sp.Retry(backoff=sp.Constant(0)), sp.Timeout(1))
    with pytest.warns(sp.PolicyWarning if hasattr(sp, "PolicyWarning") else UserWarning):
        assert "it never acts" in about(sp.Deadline(1), sp.Retry(), sp.Timeout(2))


# The command.


def test_exit_code_and_json_report_the_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = explained(capsys, "stormproof.toml")
    assert code == 0 and [p["policy"] for p in data["policies"]] == ["fraud-score", "lookup", "nightly"]
    assert data["policies"][0]["fits"] is None and data["policies"][2]["worst_case"]["seconds"] is None
    code, data = explained(capsys, "stormproof.toml:lookup", "--slo", "1s")
    assert code == 0 and data["policies"][0]["fits"] is True
    assert data["policies"][0]["retry_s"] == pytest.approx(0.25)
    code, data = explained(capsys, "stormproof.toml:fraud-score", "--slo", "2s")
    assert code == 1 and data["policies"][0]["slo"] == {
        "seconds": 2.0,
        "for_retrying_s": pytest.approx(2 / 3),
    }
    code, data = explained(capsys, "stormproof.toml", "--slo", "2s")
    assert code == 1 and [p["fits"] for p in data["policies"]] == [False, True, False]


def test_unknown_policy_and_a_broken_file_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explain", "stormproof.toml:nightl"]) == 2
    assert capsys.readouterr().err == (
        "stormproof: stormproof.toml: unknown policy 'nightl'; did you mean 'nightly'?\n"
    )
    (folder / "broken.toml").write_text("[policies.a]\nretry = { atempts = 3 }\n")
    assert cli.main(["explain", "broken.toml"]) == 2
    assert capsys.readouterr().err.startswith(
        "stormproof: broken.toml:2: policies.a.retry.atempts: unknown option"
    )
    (folder / "empty.toml").write_text("[policies]\n")
    assert cli.main(["explain", "empty.toml"]) == 2
    assert "no policy" in capsys.readouterr().err


def test_file_with_a_colon_in_its_name_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a:b.toml").write_text("[policies.x]\nretry = {}\n")
    assert explained(capsys, "a:b.toml")[0] == 0
    assert explained(capsys, "a:b.toml:x")[0] == 0


def test_explain_honours_the_environment(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORMPROOF_LOOKUP__RETRY__ATTEMPTS", "3")
    _, data = explained(capsys, "stormproof.toml:lookup")
    assert data["policies"][0]["worst_case"]["attempts"] == 3


def test_environment_reaches_no_further_than_the_file_does(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a store nor a module that a variable names is touched."""
    monkeypatch.setenv("STORMPROOF_STORE__URL", "not an address: a store would be refused")
    monkeypatch.setenv("STORMPROOF_NIGHTLY__RETRY__ON", "no_such_package.Busy, no_such_package.Late")
    assert explained(capsys, "stormproof.toml")[0] == 0


def test_file_with_a_store_is_looked_at_without_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "fleet.toml").write_text(
        '[store]\nurl = "redis://127.0.0.1:1/0"\n[budgets.partner]\nratio = 0.2\nstore = true\n'
        '[policies.a]\nretry = { budget = "partner" }\n'
    )
    code, data = explained(capsys, "fleet.toml")
    assert code == 0 and data["policies"][0]["worst_case"]["amplification"] == pytest.approx(1.2)


def test_policy_in_code_is_explained(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "shop_policies.py").write_text(
        "import stormproof as sp\npolicy = sp.Policy(sp.Retry(attempts=2))\n"
        "@policy\ndef pay(): ...\nclass Group:\n    inner = policy\nnumber = 3\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("policy", "pay", "Group.inner"):
        code, data = explained(capsys, "--python", f"shop_policies:{name}")
        assert code == 0 and data["policies"][0]["worst_case"]["attempts"] == 2
    for reference, says in (
        ("shop_policies:number", "is a int, not a Policy"),
        ("shop_policies:nothing", "has no 'nothing'"),
        ("no_such_module:x", "importing 'no_such_module' failed"),
        ("shop_policies", "must read like package.module:policy"),
        ("os;system:x", "must read like package.module:policy"),
    ):
        assert cli.main(["explain", "--python", reference]) in (1, 2)
        assert says in capsys.readouterr().err
    sys.modules.pop("shop_policies", None)


# The picture.


def test_plot_shows_bounds_and_mean() -> None:
    steps = facts(sp.Retry(attempts=3, backoff=sp.Exponential(1.0, cap=2.0))).schedule
    first, second, axis, scale = _explain_view.plot(steps, PLAIN)
    width = _explain_view.PLOT
    assert second.partition("|")[2].count("░") == width - 1 and second.count("o") == 1
    assert first.partition("|")[2] == "░" * 12 + "o" + "░" * 12
    assert axis.strip() == "+" + "-" * width and scale.strip().startswith("0") and scale.endswith("2 s")


def test_plot_without_waits_and_in_plain_characters() -> None:
    assert _explain_view.plot(facts(sp.Retry(backoff=sp.Constant(0))).schedule, PLAIN) == [
        "  (no waits to draw)"
    ]
    steps = facts(sp.Retry(attempts=3, backoff=sp.Constant(1))).schedule
    rows = _explain_view.plot(steps, Style(False, blocks=False))
    assert all(row.isascii() for row in rows) and "#" in rows[0]


def test_text_reports_order_fit_and_advice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "stormproof.toml:fraud-score", "--slo", "2s"]) == 1
    out = capsys.readouterr().out
    assert "Deadline > Retry > Timeout" in out
    assert "does not fit: retrying may take a third, 667 ms, and takes up to 2.2 s" in out
    assert "attempts = 2 (retrying then takes at most 600 ms)" in out
    assert "\x1b" not in out


def test_picture_fits_the_streams_encoding(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["explain", "stormproof.toml"]) == 0


def test_times_are_printed_in_readable_units() -> None:
    shown = [in_units(s) for s in (0, 0.0001, 0.05, 0.9994, 0.99999, 1, 2.25, 90, 3600, math.inf)]
    assert shown == ["0", "0.1 ms", "50 ms", "999 ms", "1 s", "1 s", "2.25 s", "90 s", "60 min", "unbounded"]
