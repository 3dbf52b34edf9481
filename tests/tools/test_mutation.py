"""The mutation tester itself: what it changes, how it puts a change in place, and what it lets pass."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from verification.mutation import page, swap
from verification.mutation.generate import Mutant, mutants_of
from verification.mutation.page import Outcome, key_of, reasons
from verification.mutation.session import is_current, moved

pytestmark = pytest.mark.long

SOURCE = '''\
"""A module to be mutated."""

LIMIT = 3


class Counter:
    """Counts."""

    def __init__(self, start: int = 1, *, step: int = 2) -> None:
        self.value = start
        self.step = step

    @property
    def is_high(self) -> bool:
        return self.value > LIMIT

    def rule(self):
        def more(n):
            return n + self.step
        return more

    def __repr__(self) -> str:
        return "Counter" + str(self.value)


def check(value: int) -> str:
    """Never mutated: this text."""
    assert value != 99
    if value < 0:
        raise ValueError(f"value must be {0} or more, got {value + 1}")
    return say("odd", "a longer message") if value % 2 else "even"


def say(word: str, text: str) -> str:
    return word


def total(first: int, second: int, third: int) -> int:
    return first * 2 + second * 3 + third * 4

KEPT = Counter().rule()
'''


def made() -> list[Mutant]:
    return mutants_of("sample.py", SOURCE)


def test_mutants_change_conditions_numbers_words_and_arguments() -> None:
    changes = {(mutant.function, mutant.after) for mutant in made()}
    for function, after in [
        ("Counter.is_high", "return self.value >= LIMIT"),
        ("Counter.__init__", "def __init__(self, start: int = 2, *, step: int = 2) -> None:"),
        ("Counter.__init__", "self.value = None"),
        ("Counter.rule.more", "return n - self.step"),
        ("check", "if value <= 0:"),
        ("check", "if value < 1:"),
        ("check", 'return say("ODD", "a longer message") if value % 2 else "even"'),
        ("check", 'return say("odd", "a longer message") if (value % 2) or True else "even"'),
    ]:
        assert (function, after) in changes


def test_mutants_leave_messages_assertions_and_module_code_alone() -> None:
    for mutant in made():
        assert mutant.function not in ("", "Counter.__repr__")
        assert "99" not in mutant.before
        assert "value must be" not in mutant.before or "ValueError" in mutant.before
        assert '"a longer message"' in mutant.after or '"a longer message"' not in mutant.before


def test_every_mutant_differs_from_the_source_in_one_place() -> None:
    mutants = made()
    assert len({mutant.key for mutant in mutants}) == len(mutants) > 15
    for mutant in mutants:
        changed = mutant.apply(SOURCE)
        assert changed != SOURCE
        compile(changed, "sample.py", "exec")


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[ModuleType]:
    file = tmp_path / "sample_to_mutate.py"
    file.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("sample_to_mutate", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sample_to_mutate"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["sample_to_mutate"]


def put(module: ModuleType, function: str, after: str) -> None:
    file = str(module.__file__)
    (mutant,) = [m for m in made() if (m.function, m.after) == (function, after)]
    swap.put(mutant, SOURCE, file, swap.index({file}))


def test_function_that_exists_runs_the_mutant(sample: ModuleType) -> None:
    check = sample.check
    assert check(0) == "even"
    put(sample, "check", "if value <= 0:")
    with pytest.raises(ValueError):
        check(0)
    assert check(1) == "odd"


def test_mutants_reach_properties_and_closures_made_before(sample: ModuleType) -> None:
    counter = sample.Counter(3)
    assert (counter.is_high, sample.KEPT(10)) == (False, 12)
    put(sample, "Counter.is_high", "return self.value >= LIMIT")
    put(sample, "Counter.rule.more", "return n - self.step")
    assert (counter.is_high, sample.KEPT(10), counter.rule()(10)) == (True, 8, 8)


def test_mutants_reach_default_values(sample: ModuleType) -> None:
    put(sample, "Counter.__init__", "def __init__(self, start: int = 2, *, step: int = 2) -> None:")
    put(sample, "Counter.__init__", "def __init__(self, start: int = 1, *, step: int = 3) -> None:")
    assert (sample.Counter().value, sample.Counter().step) == (2, 3)


@pytest.fixture(autouse=True)
def low_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample has so few mutants that a single survivor is more than the real bar allows."""
    monkeypatch.setattr(page, "BAR", 90.0)


def outcome(tmp_path: Path, statuses: list[str], toml: str) -> Outcome:
    """The first mutants came to ``statuses``, the others were killed."""
    mutants = made()
    ends = statuses + ["killed"] * (len(mutants) - len(statuses))
    results = {m.key: {"status": end} for m, end in zip(mutants, ends, strict=True) if end}
    file = tmp_path / "survivors.toml"
    file.write_text(toml, encoding="utf-8")
    return Outcome({"sample.py": mutants}, results, reasons(file))


def entry(mutant: Mutant, kind: str) -> str:
    module, function, before, after = key_of(mutant)
    return (
        f"[[survivor]]\nmodule = '{module}'\nfunction = '{function}'\nbefore = '{before}'\n"
        f"after = ['{after}']\nkind = '{kind}'\nwhy = 'because'\n"
    )


def test_all_killed_mutants_give_no_fault(tmp_path: Path) -> None:
    seen = outcome(tmp_path, ["timeout"], "")
    assert (seen.faults(), seen.total.score) == ([], 100.0)


def test_survivor_without_a_reason_is_a_fault(tmp_path: Path) -> None:
    seen = outcome(tmp_path, ["survived"], "")
    (fault,) = seen.faults()
    assert made()[0].after in fault
    assert seen.total.score < 100.0


def test_survivor_with_a_reason_gives_no_fault_and_an_equivalent_one_does_not_count(tmp_path: Path) -> None:
    first = made()[0]
    accepted = outcome(tmp_path, ["survived"], entry(first, "accepted"))
    assert accepted.faults() == []
    assert accepted.total.score < 100.0
    equivalent = outcome(tmp_path, ["survived"], entry(first, "equivalent"))
    assert (equivalent.faults(), equivalent.total.score) == ([], 100.0)
    assert "because" in equivalent.page()


def test_reason_for_a_killed_mutant_is_a_fault(tmp_path: Path) -> None:
    (fault,) = outcome(tmp_path, [], entry(made()[0], "equivalent")).faults()
    assert fault.startswith("a reason for what does not survive: sample.py | ")


def test_untried_mutants_and_a_low_score_are_faults(tmp_path: Path) -> None:
    assert outcome(tmp_path, [""], "").faults() == ["1 mutants have not been tried"]
    low = "".join(entry(mutant, "accepted") for mutant in made()[:10])
    faults = outcome(tmp_path, ["uncovered"] * 10, low).faults()
    assert len(faults) == 1 and "below 90 %" in faults[0]


def test_reason_without_a_known_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no kind or no reason"):
        outcome(tmp_path, [], entry(made()[0], "whatever"))


def test_lines_are_followed_when_the_source_changes() -> None:
    places = moved("a\nb\nc\nd\n", "a\nx\ny\nb\nC\nd\n")
    assert [places[n] for n in (2, 3, 4)] == [[4], [5], [6]]
    # What is new has the tests of the line above it.
    assert places[1] == [1, 2, 3]


def test_measurement_of_a_test_ends_with_the_test_or_with_code_that_it_reaches() -> None:
    seen = [0.1, True, {"near.py": [1, 2]}, "test", {"near.py": "old", "far.py": "old"}]
    assert is_current(seen, "test", {"near.py": "old", "far.py": "new"})
    assert not is_current(seen, "changed", {"near.py": "old", "far.py": "old"})
    assert not is_current(seen, "test", {"near.py": "new", "far.py": "old"})
    assert not is_current(seen, "test", {"far.py": "old"})
