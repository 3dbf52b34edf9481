"""Nothing that is read is ever run: no pickle, no eval, safe loaders only, names that are never called."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stormproof
import stormproof as sp

pytestmark = pytest.mark.proves("security no-pickle")

SOURCE = Path(stormproof.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

#: Modules that run what they read.
MODULES = {"pickle", "cPickle", "_pickle", "shelve", "marshal", "dill", "cloudpickle", "jsonpickle", "joblib"}
#: Calls that do, and the only places where one stands, with the reason.
CALLS = {"eval", "exec", "compile", "__import__"}
PERMITTED = {
    # Wrappers with the signature of the user's own function: from parameter names, which are identifiers.
    ("_runtime/call_template.py", "exec"),
    ("_runtime/call_template.py", "compile"),
    # A parameter of that name: compiles a policy.
    ("_strategies/retry/generators.py", "compile"),
}


def _name(node: ast.AST) -> str:
    return ast.unparse(node)


def test_no_source_file_imports_a_module_that_runs_its_input(measured: Callable[[str], None]) -> None:
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            )
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            found += [(path.name, name) for name in names if name.partition(".")[0] in MODULES]
    assert found == []
    measured(f"{len(FILES)} source files, no import of {len(MODULES)} modules that run what they read")


def test_no_source_file_calls_eval_or_a_loader_of_code() -> None:
    found = set()
    for path in FILES:
        place = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = _name(node.func)
                if called in CALLS:
                    found.add((place, called))
                assert called not in ("os.system", "os.popen"), place
                assert not any(
                    word.arg == "shell" and _name(word.value) != "False" for word in node.keywords
                ), place
                if called.endswith(("yaml.load", "yaml.full_load", "yaml.unsafe_load")):
                    loader = [_name(word.value) for word in node.keywords if word.arg == "Loader"]
                    assert called == "yaml.load" and loader and "Safe" in loader[0], place
    allowed = {entry for entry in found if entry in PERMITTED}
    compiled = {entry for entry in found - allowed if not _only_constants(SOURCE / entry[0], entry[1])}
    assert compiled == set()
    assert ("_runtime/call_template.py", "exec") in found, "the scan looks at the wrong files"


def _only_constants(path: Path, called: str) -> bool:
    """Return True if every such call in the file is of a literal: no input of users reaches it."""
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _name(node.func) == called
    ]
    return all(call.args and isinstance(call.args[0], ast.Constant) for call in calls)


def test_parameter_cannot_be_code() -> None:
    """The one exec: a function whose parameters are named by hand gets the plain wrapper."""
    fired: list[int] = []
    code = (lambda a: a).__code__.replace(co_varnames=("a=__import__('sys').exit()",))
    hostile = type(_plain)(code, {"fired": fired})
    with pytest.raises((TypeError, ConnectionError, UnboundLocalError, SystemError)):
        sp.retry(on=ConnectionError)(hostile)()
    assert fired == []


def _plain() -> None: ...


TAGS = [
    "!!python/object/apply:os.system ['touch {canary}']",
    "!!python/object/new:subprocess.Popen [['touch', '{canary}']]",
    "!!python/name:os.system",
    "!!python/module:os",
    "!!python/object/apply:builtins.exec [\"open('{canary}', 'w')\"]",
]


@pytest.mark.parametrize("tag", TAGS)
def test_hostile_yaml_runs_nothing(tag: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    file = tmp_path / "stormproof.yaml"
    file.write_text(f"policies:\n  mail:\n    retry:\n      attempts: {tag.format(canary=canary)}\n")
    with pytest.raises(sp.ConfigError):
        sp.load(file, environ={})
    assert not canary.exists()


@pytest.mark.parametrize(
    "value",
    [
        "__import__('os').system('touch {canary}')",
        "os:system",
        "os.system",
        "subprocess:Popen",
        "builtins.eval",
        "builtins.object.__subclasses__",
        "{{7*7}}",
        "${{HOME}}",
        "$(touch {canary})",
    ],
)
def test_hostile_toml_runs_nothing(value: str, tmp_path: Path) -> None:
    """A name in ``on`` is looked up and never called; what is not an exception is refused at its line."""
    canary = tmp_path / "canary"
    file = tmp_path / "stormproof.toml"
    file.write_text(f'[policies.mail]\nretry = {{ on = "{value.format(canary=canary)}", attempts = 3 }}\n')
    with pytest.raises(sp.ConfigError, match=r"stormproof\.toml:2"):
        sp.load(file, environ={})
    assert not canary.exists()


def test_yaml_bomb_is_refused_in_time(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    file = tmp_path / "stormproof.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(sp.ConfigError) as refused:
        sp.load(file, environ={})
    assert len(str(refused.value)) < 5000


class Exploit:
    def __reduce__(self) -> Any:
        return print, ("fired",)


def test_store_never_unpickles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer in a store that is a pickle is bytes, and is given back as such or refused."""
    from stormproof import idempotency

    for store in (idempotency.MemoryStore(), idempotency.SqliteStore(tmp_path / "keys.db")):
        store.begin("k", "", "me", 60)
        store.finish("k", "me", pickle.dumps(Exploit()))
        again = store.begin("k", "", "you", 60)
        assert again.state == "replay" and isinstance(again.answer, bytes)

        @sp.idempotent(key=lambda: "k", store=store, scope="")
        def call() -> str:
            return "ran"

        try:
            call()
        except (sp.StormproofError, ValueError):
            pass
    assert "fired" not in capsys.readouterr().out
