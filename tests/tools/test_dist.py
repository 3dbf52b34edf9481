"""The wheel and the source distribution of this tree: reproducible, complete, nothing private.

`make dist` does the same with the last commit, and then installs each extra alone.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.artefacts import build, contents, install

pytestmark = pytest.mark.long

EPOCH = 1_700_000_000
PYTHON = Path(sys.executable)
#: What lies about in a folder that is worked in. Git ignores all of it, and so must a build.
LITTER = (
    "src/stormproof/__pycache__/policy.cpython-311.pyc",
    "src/stormproof/.mypy_cache/cache.json",
    "web/node_modules/uplot/index.js",
    "tests/.hypothesis/examples/1",
    "docs/.DS_Store",
    "build/site/index.html",
    ".venv/bin/python",
)


class Made:
    """Everything built once for the tests below: two wheels, an sdist, and a wheel from the sdist."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.names = build.working()
        page = build.ROOT / contents.PAGE
        has_page = page.is_file()
        tree = build.gathered([*self.names, *[contents.PAGE] * has_page], work / "source")
        self.without_page = () if has_page else ("without-page",)
        no_page = {} if has_page else {"STORMPROOF_NO_PAGE": "1"}
        here, there = (build.copied(tree, place, work) for place in (build.HERE, build.ELSEWHERE))
        for name in LITTER:
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            (there / name).write_text("litter")
        self.wheel = build.build("wheel", here, EPOCH, python=PYTHON, **no_page)
        self.other_wheel = build.build("wheel", there, EPOCH, python=PYTHON, place=build.ELSEWHERE, **no_page)
        self.sdist = build.build("sdist", there, EPOCH, python=PYTHON, place=build.ELSEWHERE, **no_page)
        unpacked = build.unpacked(self.sdist, work / "unpacked")
        self.wheel_of_sdist = build.build("wheel", unpacked, EPOCH, python=PYTHON, **no_page)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("dist"))


def test_two_builders_make_the_same_wheel(made: Made, measured: Callable[[str], None]) -> None:
    assert contents.differences(made.wheel, made.other_wheel) == []
    assert contents.differences(made.wheel, made.wheel_of_sdist) == []
    measured(f"3 wheels of {len(contents.members(made.wheel))} files, one digest")


def test_packages_contain_the_whole_tree_and_nothing_else(made: Made) -> None:
    wheel, sdist = contents.members(made.wheel), contents.members(made.sdist)
    wrong = [*contents.incomplete(wheel, sdist, made.names), *contents.unwanted([*wheel, *sdist])]
    if made.without_page:
        wrong = [finding for finding in wrong if not finding.endswith("_page/index.html")]
    assert wrong == []
    assert {
        "stormproof/py.typed",
        "stormproof/_fleet/lua/budget.lua",
        "stormproof/presets/__init__.py",
    } <= wheel.keys()


def test_packages_contain_no_secret_and_no_build_path(made: Made, measured: Callable[[str], None]) -> None:
    names = contents.private(made.work)
    packages = [contents.members(made.wheel), contents.members(made.sdist)]
    assert [finding for files in packages for finding in contents.leaks(files, names)] == []
    searched = sum(len(data) for files in packages for data in files.values())
    measured(f"{sum(map(len, packages))} files, {searched:,} bytes searched, nothing private")


def test_metadata_of_the_wheel_is_true(made: Made) -> None:
    held = contents.members(made.wheel)
    assert [*contents.bad_metadata(held), *contents.bad_record(held)] == []


def test_wheel_works_in_an_empty_environment(made: Made, tmp_path: Path) -> None:
    python = install.core(made.wheel, tmp_path / "env")
    assert install.distributions(python) == ["stormproof"]
    assert "a budget, a breaker" in install.smoke(python, "core.py", *made.without_page)
    code, said = install.command(python, "demo")
    assert (code, said) == (2, "stormproof: rich is missing: install stormproof[cli]\n")


# The checks themselves can fail.


@pytest.mark.parametrize(
    "text",
    # In two pieces, so that this file contains none of them.
    [
        "open('/home" + "/ann/stormproof/x.py')",
        "C:" + "\\Users\\ann",
        "see /Users" + "/ann/src/",
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "token = ghp_" + "a1" * 18,
        "sk-" + "a1" * 20,
        "at build-host-7 today",
    ],
)
def test_private_text_in_a_wheel_is_reported(text: str) -> None:
    found = list(contents.leaks({"a.py": f"first line\n{text}\n".encode()}, {"build-host-7": "a host"}))
    assert len(found) == 1 and found[0].startswith("a.py:2 contains ")


@pytest.mark.parametrize(
    "text", ["a path/home/x", "build-host-70", "AKIA in a word", "risk-free", "the home page"]
)
def test_text_that_resembles_a_secret_is_not_reported(text: str) -> None:
    assert list(contents.leaks({"a.py": text.encode()}, {"build-host-7": "a host"})) == []


@pytest.mark.parametrize("name", [*LITTER, "/etc/passwd", "a/../b", "x/id_rsa", "server.pem", ".env.local"])
def test_unwanted_file_in_a_wheel_is_reported(name: str) -> None:
    assert contents.unwanted(["stormproof/policy.py", name]) == [f"{name} must not be there"]


def test_additional_byte_is_found(made: Made, tmp_path: Path) -> None:
    other = tmp_path / made.wheel.name
    shutil.copy(made.wheel, other)
    with other.open("ab") as stream:
        stream.write(b"\0")
    assert "not in what they hold" in contents.differences(made.wheel, other)[0]


def test_changed_file_a_lost_file_and_a_new_dependency_are_found(made: Made) -> None:
    held = contents.members(made.wheel)
    info = next(name for name in held if name.endswith(".dist-info/METADATA"))
    changed = {**held, info: b"Requires-Dist: numpy\n" + held[info]}
    assert "METADATA: the core needs numpy" in list(contents.bad_metadata(changed))
    assert f"RECORD: {info} is not as recorded" in list(contents.bad_record(changed))
    lost = {name: data for name, data in held.items() if name != "stormproof/py.typed"}
    assert list(contents.bad_record(lost)) == [
        "RECORD: stormproof/py.typed is in one of wheel and RECORD only"
    ]
    lacking = list(contents.incomplete(lost, contents.members(made.sdist), made.names))
    assert "the wheel lacks stormproof/py.typed" in lacking


def test_tree_that_cannot_be_built_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    with pytest.raises(SystemExit, match="could not be built"):
        build.build("wheel", tmp_path / "tree", EPOCH, python=PYTHON)
