"""``verification.compat_suites``: how verdicts are read and reported. The suites need the network."""

from __future__ import annotations

import pytest
from verification.compat_suites.__main__ import main, report
from verification.compat_suites.run import Verdict, _read
from verification.compat_suites.suites import SUITES, Suite

REPORT = """<testsuites><testsuite>
<testcase classname="t" name="good"/>
<testcase classname="t" name="bad"><failure message="x"/></testcase>
<testcase classname="t" name="broken"><error message="x"/></testcase>
<testcase classname="t" name="left"><skipped/></testcase>
</testsuite></testsuites>"""


def test_report_of_pytest_is_read(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(REPORT, encoding="utf-8")
    assert _read(path, "x-1") == Verdict(1, ("t::bad", "t::broken"), 1, "x-1")


@pytest.mark.parametrize(
    ("passed", "failed", "good"),
    [(5, (), True), (4, (), False), (5, ("t::known",), True), (5, ("t::new",), False)],
)
def test_suite_is_good_with_enough_passed_and_every_miss_explained(capsys, passed, failed, good):
    suite = Suite("x", "x", 5, {}, misses={"::known": "because"})
    assert report(suite, Verdict(passed, failed, 0, "x-1")) is good
    assert ("NOT EXPLAINED" in capsys.readouterr().out) == ("t::new" in failed)


def test_unknown_suite_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "no suite called nothing" in capsys.readouterr().err


def test_every_suite_names_a_module_of_ours():
    for suite in SUITES.values():
        assert all(module.startswith("stormproof.compat.") for module in suite.stands_for.values())
