"""``stormproof lint``: which files it looks at, how it is configured, how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stormproof import cli

BAD = "import backoff\n@backoff.on_exception(backoff.expo, OSError)\ndef f(): ...\n"
GOOD = "import backoff\n@backoff.on_exception(backoff.expo, OSError, max_tries=3)\ndef f(): ...\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def linted(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str]]:
    """The exit code, and "path:line code" for each finding."""
    code = cli.main(["lint", "--json", *argv])
    data = json.loads(capsys.readouterr().out)
    return code, [f"{f['path']}:{f['line']} {f['code']}" for f in data["findings"]]


def test_lint_exits_with_0_without_findings_and_1_with_some(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, good_dot_py=GOOD, bad_dot_py=BAD)
    assert linted(capsys, "good.py") == (0, [])
    assert linted(capsys, "bad.py") == (1, ["bad.py:2 SP003"])
    assert linted(capsys, "good.py", "bad.py") == (1, ["bad.py:2 SP003"])
    assert linted(capsys) == (1, ["bad.py:2 SP003"]), "the present folder"


def test_folders_are_searched_in_order_and_some_are_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        folder,
        src__b_dot_py=BAD,
        src__a__x_dot_py=BAD,
        src__notes_dot_txt=BAD,
        src__build__c_dot_py=BAD,
        _dot_venv__lib__x_dot_py=BAD,
        node_modules__x_dot_py=BAD,
    )
    assert linted(capsys, ".") == (1, ["src/b.py:2 SP003", "src/a/x.py:2 SP003"])
    assert linted(capsys, "src/a", "src") == (1, ["src/a/x.py:2 SP003", "src/b.py:2 SP003"]), "each file once"
    assert linted(capsys, ".venv/lib/x.py")[0] == 1, "a file that is named is looked at"
    assert linted(capsys, "src/notes.txt")[0] == 1


def test_policy_files_of_a_folder_are_linted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = '[policies.a]\nretry = { budget = "none" }\n'
    write(folder, stormproof_dot_toml=policies, other_dot_toml=policies, conf__x_dot_toml=policies)
    assert linted(capsys, ".") == (1, ["stormproof.toml:2 SP008"])
    assert linted(capsys, "other.toml") == (1, ["other.toml:2 SP008"])
    write(folder, pyproject_dot_toml='[tool.stormproof.lint]\npolicy-files = ["conf/*.toml"]\n')
    assert linted(capsys, ".") == (1, ["stormproof.toml:2 SP008", "conf/x.toml:2 SP008"])


def test_configuration_and_options_choose_files_and_rules(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        folder,
        bad_dot_py=BAD,
        old__bad_dot_py=BAD,
        pyproject_dot_toml='[tool.stormproof.lint]\nexclude = ["old"]\n',
        strict_dot_toml='[tool.stormproof.lint]\nignore = ["SP003"]\n',
    )
    assert linted(capsys, ".") == (1, ["bad.py:2 SP003"])
    assert linted(capsys, ".", "--exclude", "bad.py")[1] == []
    assert linted(capsys, ".", "--ignore", "SP003") == (0, [])
    assert linted(capsys, ".", "--config", "strict.toml") == (0, [])
    assert linted(capsys, ".", "--select", "SP001", "--select", "SP002") == (0, [])
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")
    assert linted(capsys, "../../bad.py", "--ignore", "SP003") == (0, [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.stormproof.lint]\nselct = []\n", "did you mean 'select'"),
        ("[tool.stormproof.lint]\nselect = 'SP001'\n", "must be a list of strings"),
        ("[tool.stormproof\n", "pyproject.toml"),
        ("[tool]\nstormproof = 3\n", "stormproof must be a table"),
    ],
)
def test_wrong_configuration_is_one_line_and_2(
    text: str, says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, pyproject_dot_toml=text, bad_dot_py=BAD)
    assert cli.main(["lint"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("stormproof: ") and err.count("\n") == 1 and says in err


def test_unreadable_file_exits_2_and_other_findings_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, b_dot_py=BAD)
    (folder / "a.py").write_bytes(b"# coding: no-such\n# \xff retry\n")
    os.symlink("nowhere", folder / "c.py")
    assert cli.main(["lint", "--json", "."]) == 2
    out, err = capsys.readouterr()
    assert [f["path"] for f in json.loads(out)["findings"]] == ["b.py"]
    assert "a.py: is in no known encoding" in err and "c.py: No such file" in err and err.count("\n") == 2


def test_declared_encodings_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "latin.py").write_bytes(b"# coding: latin-1\nx = '\xe4'\n" + BAD.encode())
    (folder / "bom.py").write_bytes(b"\xef\xbb\xbf" + BAD.encode())
    assert linted(capsys, ".") == (1, ["bom.py:2 SP003", "latin.py:4 SP003"])


def test_findings_are_printed_in_every_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, bad_dot_py=BAD, good_dot_py=GOOD)
    assert cli.main(["lint", "."]) == 1
    out = capsys.readouterr().out
    assert out.startswith("bad.py:2:2: SP003 error: backoff.on_exception has no limit") and "\n  fix: " in out
    assert out.endswith("1 finding in 2 files\n")
    assert cli.main(["lint", ".", "--format", "github"]) == 1
    assert capsys.readouterr().out.startswith("::error file=bad.py,line=2,col=2,")
    assert cli.main(["lint", ".", "--format=sarif"]) == 1
    assert json.loads(capsys.readouterr().out)["runs"][0]["results"][0]["ruleId"] == "SP003"
    assert cli.main(["lint", "good.py", "--format=github"]) == 0
    assert capsys.readouterr().out == ""


def test_rules_are_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "--rules"]) == 0
    assert "SP003 unbounded (error)" in capsys.readouterr().out
    assert cli.main(["lint", "--rules", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rules"][3]["code"] == "SP003"
    assert cli.main(["lint", "--rules", "--format", "sarif"]) == 2
    assert "--rules" in capsys.readouterr().err


def test_linted_files_are_not_imported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        folder,
        trap_dot_py="raise SystemExit('imported')\nimport retry\n",
        stormproof_dot_toml='[policies.a]\nretry = { on = "trap.Error" }\n',
    )
    assert linted(capsys, ".") == (0, [])
