"""``verification.client_suites``: how two runs of a suite are compared. The suites need the network."""

from __future__ import annotations

import pytest
from verification.client_suites.__main__ import main, report
from verification.client_suites.run import Comparison, _file
from verification.client_suites.suites import SUITES, Suite


def _comparison(plain, mounted):
    return Comparison("x-1", plain, mounted)


def test_suite_counts_a_test_as_broken_if_it_passes_only_without_a_policy():
    plain = {"t::a": "passed", "t::b": "failed", "t::c": "skipped", "t::d": "passed", "t::gone": "passed"}
    mounted = {"t::a": "passed", "t::b": "failed", "t::c": "failed", "t::d": "failed"}
    assert _comparison(plain, mounted).broken == ["t::d", "t::gone"]


@pytest.mark.parametrize(("name", "good"), [("known", True), ("new", False)])
def test_difference_is_good_only_if_it_is_listed(capsys, name, good):
    suite = Suite("x", "x==1.*", (), ("tests",), differences={"::known": "because"})
    assert report(suite, _comparison({f"t::{name}": "passed"}, {f"t::{name}": "failed"})) is good
    assert ("NOT EXPLAINED" in capsys.readouterr().out) is not good


@pytest.mark.parametrize(
    "test", ["tests.client.test_auth::test_x[a.B]", "tests.client.test_auth.TestAuth::test_x"]
)
def test_file_of_a_test_is_found_by_its_id(test):
    assert _file(test) == "tests/client/test_auth.py"


def test_unknown_suite_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "no suite called nothing" in capsys.readouterr().err


def test_all_suites_together_have_at_most_five_kinds_of_difference():
    assert len({why for suite in SUITES.values() for why in suite.differences.values()}) <= 5
