"""``verification.lint_precision``: unpacking packages, joining findings with verdicts. Needs the network."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from verification.lint_precision import __main__ as command
from verification.lint_precision import sources, verdicts
from verification.lint_precision.verdicts import Verdict

from stormproof import lint

LOOP = """
import requests, time

def load(url):
    for attempt in range(3):
        try:
            return requests.get(url)
        except requests.ConnectionError:
            time.sleep(1)
"""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("shop/client.py", LOOP)
        archive.writestr("../outside.py", LOOP)
        archive.writestr("shop/data.bin", b"")
    files = [{"filename": "shop-1.0-py3-none-any.whl", "url": "../../files/shop.whl"}]
    answers = {
        "https://index.example/pypi/shop/json": json.dumps(
            {"info": {"version": "1.0"}, "releases": {"1.0": files}}
        ).encode(),
        "https://index.example/files/shop.whl": packed.getvalue(),
    }
    monkeypatch.setattr(sources, "INDEX", "https://index.example/pypi/")
    monkeypatch.setattr(sources, "_get", answers.__getitem__)


def test_release_is_unpacked_without_what_lies_outside(tmp_path: Path, registry: None) -> None:
    folder = sources.fetch("shop", tmp_path / "a")
    assert folder == tmp_path / "a" / "shop==1.0"
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.py")] == [
        Path("a/shop==1.0/shop/client.py")
    ]


@pytest.mark.parametrize(("judged", "unjudged"), [(True, 0), (False, 1)])
def test_finding_is_joined_with_its_verdict(
    tmp_path: Path,
    registry: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    judged: bool,
    unjudged: int,
) -> None:
    row = Verdict("A", "shop==1.0", "shop/client.py:5", "SP009", "false", "because")
    monkeypatch.setattr(verdicts, "read", lambda: [row] if judged else [])
    assert command.run(["shop"], tmp_path, lint.Settings(), 2, False) == unjudged
    shown = capsys.readouterr().out
    assert ("false (because)" if judged else "NOT JUDGED") in shown
    assert "    5>     for attempt in range(3):" in shown


def test_every_verdict_is_true_or_false_and_of_a_listed_release() -> None:
    rows = verdicts.read()
    assert {row.verdict for row in rows} == {"true", "false"}
    for name in {row.set for row in rows}:
        listed = set(sources.listed_in_page(name))
        assert {row.release for row in rows if row.set == name} <= listed


def test_page_has_the_counts_of_the_verdicts() -> None:
    page = sources.PAGE.read_text(encoding="utf-8")
    rows = verdicts.read()
    last = max(row.set for row in rows)
    mine = [row for row in rows if row.set == last]
    assert verdicts.by_rule(mine) in page
    assert verdicts.by_finding(mine) in page
