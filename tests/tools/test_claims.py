"""``docs/claims.md`` is what ``make claims`` makes of the claims, now.

The rule for what is run again here: every claim that is not marked ``slow``. A slow one is held to its words,
to being judged alike in the table and in its section, and, where theory or a publication says what must come
out, to that verdict.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from verification.claims.__main__ import main
from verification.claims.model import Claim, Found, Topic, Verdict, found, slug, unknown
from verification.claims.pages import page, section
from verification.claims.plots import PLOTS
from verification.claims.sources import AWS, EVERY
from verification.claims.topics import TOPICS, by_name

DOCS = Path(__file__).parents[2] / "docs"
CLAIMS = by_name()
QUICK = [claim for claim in CLAIMS.values() if not claim.slow]

#: What theory, arithmetic or the publication itself says, found without running anything.
KNOWN = {
    "equal-jitter-waits-as-long-as-none": Verdict.FAILS,  # the mean of U[c/2, c] is 3c/4
    "the-eighth-wait-is-capped-at-30-s": Verdict.PARTLY,  # 0.2 * 2**7 = 25.6
    "the-figures-of-the-retry-storm-script": Verdict.FAILS,  # most callers arrive before the outage
    "full-jitter-finishes-first": Verdict.FAILS,  # AWS's own table: decorrelated 4,575 ms, full 4,916 ms
    "the-aws-table": Verdict.HOLDS,
    "three-layers-make-64": Verdict.HOLDS,  # 4**3
    "success-and-load-of-three-retries": Verdict.HOLDS,
    "a-queue-at-80-percent": Verdict.HOLDS,  # M/M/1
    "below-150-it-is-stable": Verdict.HOLDS,  # 2 * 150 = 300
    "the-time-to-drain": Verdict.HOLDS,
    "only-budgets-earned-by-success-recover": Verdict.HOLDS,
    "one-slow-server-in-a-hundred": Verdict.HOLDS,  # 1 - 0.99**100
    "1800000-retries-in-a-final": Verdict.OPEN,
}


@pytest.fixture(scope="module")
def text() -> str:
    return (DOCS / "claims.md").read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """Each claim's section of the page by its name, from its heading on."""
    parts = re.split(r"^(?=#{2,3} )", text, flags=re.MULTILINE)
    named = {
        part.split("\n", 1)[0].removeprefix("### "): part.rstrip() for part in parts if part.startswith("###")
    }
    return {slug(title): part for title, part in named.items()}


def verdict_of(part: str) -> str:
    [said] = re.findall(r"^- \*\*([A-Z][a-z ]+)\.\*\*", part, flags=re.MULTILINE)
    return str(said).lower()


@pytest.mark.parametrize("claim", QUICK, ids=lambda claim: claim.name)
def test_page_holds_the_current_outcome_of_the_claim(claim: Claim, text: str) -> None:
    written = sections(text)[claim.name]
    assert written == section(claim, claim.check()), "run `make claims`"


def test_most_claims_are_run_again_here() -> None:
    assert len(QUICK) > 0.7 * len(CLAIMS)


def test_every_claim_is_quoted_with_its_sources(text: str) -> None:
    written = sections(text)
    assert list(written) == list(CLAIMS)
    for name, claim in CLAIMS.items():
        flat = " ".join(written[name].split())
        assert claim.says in flat
        assert all(source.name in flat for source in claim.sources)


def test_table_sections_and_sum_agree(text: str) -> None:
    rows = dict(re.findall(r"^\| \[[^]]+\]\(#([^)]+)\) \|[^|]+\| ([^|]+) \|$", text, flags=re.MULTILINE))
    judged = {name: verdict_of(part) for name, part in sections(text).items()}
    assert rows == judged
    counts = Counter(judged.values())
    head = " ".join(text.split("| claim |", maxsplit=1)[0].split())
    assert f"Of {len(judged)} claims {counts['holds']} hold, {counts['holds partly']} hold partly" in head
    assert f"{counts['does not hold']} do not hold, {counts['cannot be checked']} cannot be checked" in head


@pytest.mark.parametrize(("name", "verdict"), KNOWN.items())
def test_known_claims_have_their_verdict(name: str, verdict: Verdict, text: str) -> None:
    assert verdict_of(sections(text)[name]) == verdict


def test_every_source_is_named_and_used() -> None:
    used = {source for claim in CLAIMS.values() for source in claim.sources}
    assert used == set(EVERY)
    assert all(claim.sources for claim in CLAIMS.values())


def test_pictures_of_claims_exist_and_are_small(text: str) -> None:
    shown = re.findall(r"\]\(images/([\w-]+)\.svg\)", text)
    assert sorted(shown) == sorted(PLOTS)
    for name in PLOTS:
        drawn = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
        assert drawn.startswith("<?xml")
        assert 5_000 < len(drawn) < 100_000
        assert "<dc:date>" not in drawn


def test_picture_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    first, again = tmp_path / "first.svg", tmp_path / "again.svg"
    for path in (first, again):
        PLOTS["plot-layers"](path)
    assert first.read_bytes() == again.read_bytes()


def test_figures_decide_the_verdict() -> None:
    assert found("", "", True).verdict is Verdict.HOLDS
    assert found("", "", True, partly=True).verdict is Verdict.HOLDS
    assert found("", "", False, partly=True).verdict is Verdict.PARTLY
    assert found("", "", False).verdict is Verdict.FAILS


def test_page_of_two_claims_is_rendered() -> None:
    topic = Topic("Sums", "All about sums.", plots=(("plot-sums", "sums"),))
    topic.claim("Two and two", "They make five.", AWS)(lambda: found("`2 + 2`", "4", False, "It is 4%, say."))
    topic.claim("The moon", "It is cheese.", AWS)(lambda: unknown("No one can check."))
    results = {claim.name: claim.check() for claim in topic.claims}
    made = page([topic], results)
    assert "Of 2 claims 0 hold, 0 hold partly, 1 does not hold, 1 cannot be checked." in " ".join(
        made.split()
    )
    assert "| [Two and two](#two-and-two) | AWS | does not hold |" in made
    assert "![sums](images/plot-sums.svg)" in made
    wanted = (
        "- Claim (AWS): They make five.\n- Ran: `2 + 2`.\n- Came out: 4.\n- **Does not hold.** It is 4%, say."
    )
    assert sections(made)["two-and-two"] == f"### Two and two\n\n{wanted}"
    assert "Ran:" not in sections(made)["the-moon"]


def test_lines_do_not_break_within_code() -> None:
    claim = Claim("Long", "word " * 20 + "`code that must stay together`", (AWS,), lambda: unknown(""))
    made = section(claim, Found("", "12%", Verdict.HOLDS))
    assert "`code that must stay together`" in made
    assert "12 %" in made
    assert max(len(line) for line in made.split("\n")) <= 118


def test_titles_make_links_everywhere() -> None:
    with pytest.raises(ValueError, match=r"title must hold only .* got 'a_b'"):
        slug("a_b")


def test_claim_can_be_checked_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twelve-days-without-a-cap"]) == 0
    assert "1,048,576 s" in capsys.readouterr().out


def test_unknown_claim_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["no-such-claim"])
    assert ended.value.code == 2
    assert "'no-such-claim'" in capsys.readouterr().err


def test_command_writes_page_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic("Sums")
    topic.claim("Two and two", "They make four.", AWS)(lambda: found("`2 + 2`", "4", True))
    monkeypatch.setattr("verification.claims.__main__.TOPICS", (topic,))
    monkeypatch.setattr(
        "verification.claims.__main__.by_name", lambda: {claim.name: claim for claim in topic.claims}
    )
    monkeypatch.setattr("verification.claims.plots.PLOTS", {"plot-layers": PLOTS["plot-layers"]})
    assert main([], docs=tmp_path) == 0
    assert "### Two and two" in (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert (tmp_path / "images" / "plot-layers.svg").exists()


def test_every_topic_of_claims_is_loaded() -> None:
    assert sum(len(topic.claims) for topic in TOPICS) == len(CLAIMS) >= 80
