"""``policy_of``: from a decorated function, a strategy or tenacity's settings to the policy."""

from __future__ import annotations

import pytest
import tenacity as real

import stormproof as sp
from stormproof import lab
from stormproof.cli import main
from stormproof.compat import tenacity as ours

STORM = lab.Scenario(
    clients=20, arrival_rps=80, capacity_rps=100, outage=lab.Outage(at=2, lasts=1, mode="fail"), duration=6
)


def test_decorated_function_and_method_give_the_policy_itself() -> None:
    policy = sp.Policy(sp.Retry(on=OSError))

    class Client:
        @policy
        def fetch(self) -> None: ...

    assert sp.policy_of(policy(lambda: None)) is policy
    assert sp.policy_of(Client().fetch) is policy
    assert sp.policy_of(policy) is policy


def test_retry_decorator_gives_its_policy() -> None:
    @sp.retry(on=OSError, attempts=7)
    def fetch() -> None: ...

    assert sp.policy_of(fetch).worst_case().attempts == 7


def test_strategy_gives_a_policy_of_it_alone() -> None:
    strategy = sp.Timeout(1)
    assert sp.policy_of(strategy).strategies == (strategy,)


@pytest.mark.parametrize("tenacity", [real, ours], ids=["tenacity", "drop-in"])
def test_tenacity_settings_and_decorated_functions_are_read(tenacity) -> None:
    @tenacity.retry(stop=tenacity.stop_after_attempt(3))
    def fetch() -> None: ...

    settings = tenacity.Retrying(stop=tenacity.stop_after_attempt(3))
    assert sp.policy_of(fetch).worst_case().attempts == 3
    assert sp.policy_of(settings).worst_case().attempts == 3


@pytest.mark.parametrize("target", [len, 3, None, sp.Timeout], ids=repr)
def test_anything_else_is_refused_by_name(target: object) -> None:
    with pytest.raises(TypeError, match="policy_of: target must be a decorated function, a Policy"):
        sp.policy_of(target)


@pytest.mark.parametrize("tenacity", [real, ours], ids=["tenacity", "drop-in"])
def test_lab_compares_tenacity_settings_with_policies(tenacity) -> None:
    settings = tenacity.Retrying(stop=tenacity.stop_after_attempt(4), wait=tenacity.wait_fixed(0.2))
    naive = sp.policy_from_tenacity(settings)
    compared = lab.compare({"theirs": settings, "same": naive, "none": None}, STORM, seeds=[1])
    peaks = {name: compared.summary[name]["calls_per_success"] for name in ("theirs", "same", "none")}
    assert peaks["theirs"] == peaks["same"] > peaks["none"]


MODULE = """
from {home} import {name}

@{name}.retry(stop={name}.stop_after_attempt(4), wait={name}.wait_fixed(0.2))
def fetch(): ...

@{name}.retry
def forever(): ...
"""


@pytest.mark.parametrize("home", ["", "stormproof.compat"], ids=["tenacity", "drop-in"])
def test_commands_take_a_function_that_tenacity_decorates(home: str, tmp_path, monkeypatch, capsys) -> None:
    text = MODULE.format(home=home, name="tenacity").replace("from  import", "import")
    name = f"mine_{home.replace('.', '_')}"
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["explain", "--python", f"{name}:fetch"]) == 0
    assert "4 attempts" in capsys.readouterr().out
    assert main(["simulate", "--python", f"{name}:fetch", "--scenario", "herd", "--scale", "0.1"]) in (0, 1)
    assert "fetch" in capsys.readouterr().out
    assert main(["explain", "--python", f"{name}:forever"]) == 2
    assert "stop must end the retrying" in capsys.readouterr().err
