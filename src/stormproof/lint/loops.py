"""One retry, however it is written: a library's decorator, a client's option, a policy file, a loop by hand.

Readers turn each of these into a `Loop`; rules look at nothing else. ``None`` always means "unknown
from the text", and no rule fires on it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .statements import name_of, walk, words_of

if TYPE_CHECKING:
    from .findings import Place

#: Failures of what has yet to appear or to change: a retry of these alone is a poll.
NOT_THERE = re.compile(
    r"(NotFound|NotReady|DoesNotExist|NoSuch\w+|Waiter\w*|\w*Conflict\w*|BadRequest\w*|\w*Initializ\w*|"
    r"\w*Undeliverable|Want(Read|Write)\w*|Pending\w*|InProgress\w*|NotFinished\w*|NotCompleted?\w*|NotDone\w*|"
    r"StillRunning\w*|(Still)?Waiting\w*|NotEmpty\w*)$"
)
#: Names of functions that wait for what their caller has started or deletes: each for its own, not a crowd.
_AWAITS = re.compile(
    r"(^|_)(wait|poll|until|await|ready|delete|remove|clean|cleanup|destroy|terminate|verify|exists|check|"
    r"ping|health|alive)(_|$)"
)
#: Failures of a poll (not there yet, not now) and of data: no server has to recover from them.
EXPECTED = {
    *("queue.Empty", "queue.Full", "asyncio.QueueEmpty", "asyncio.QueueFull", "BlockingIOError"),
    *("FileNotFoundError", "FileExistsError", "PermissionError", "ProcessLookupError", "AssertionError"),
    *("KeyError", "IndexError", "LookupError", "AttributeError", "ImportError", "ValueError", "TypeError"),
    *("json.JSONDecodeError", "json.decoder.JSONDecodeError", "pydantic.ValidationError"),
}
#: The server asks for other credentials: a new token is what the next attempt needs, not a wait.
UNAUTHORIZED = re.compile(
    r"401|unauthori[sz]ed|authori[sz]ation|authenticat|oauth|login|token|credentials|(?<![a-z])auth(?![a-z])",
    re.IGNORECASE,
)
#: A retry that lets one of these pass can be ended from outside.
INTERRUPTS = {"BaseException", "KeyboardInterrupt", "CancelledError", "Cancelled"}


def awaits_a_state(function: str) -> bool:
    """Return True if the name of a function says that it waits for what its caller has started or deletes."""
    return _AWAITS.search("_".join(words_of(function))) is not None


@dataclass(slots=True)
class Function:
    """A function of a module: what rules ask of the code that is retried."""

    name: str
    owner: str | None
    node: ast.FunctionDef | ast.AsyncFunctionDef
    calls: list[ast.Call] = field(default_factory=list)

    @property
    def is_stub(self) -> bool:
        """Return True if nothing is called in it: a sample, or a part of an interface."""
        return not self.calls

    @property
    def is_abstract(self) -> bool:
        """Return True if all it does is raise NotImplementedError."""
        last = self.node.body[-1]
        error = last.exc if isinstance(last, ast.Raise) else None
        named = error.func if isinstance(error, ast.Call) else error
        return isinstance(named, ast.Name) and named.id == "NotImplementedError"

    @property
    def is_generator(self) -> bool:
        """Return True if a call of it runs nothing yet, so that a decorator sees no failure."""
        return any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in walk(self.node.body))

    @property
    def awaits_a_state(self) -> bool:
        """Return True if its name says that it waits for what its caller has started or deletes."""
        return awaits_a_state(self.name)


def called_function(
    call: ast.Call, within: Function | None, functions: dict[tuple[str | None, str], Function]
) -> Function | None:
    """Return which of ``functions`` ``call`` calls: by its name, or as ``self.name`` of the same class."""
    func = call.func
    if isinstance(func, ast.Name):
        return functions.get((None, func.id))
    root = func.value if isinstance(func, ast.Attribute) else None
    if within is not None and isinstance(root, ast.Name) and root.id in ("self", "cls"):
        return functions.get((within.owner, name_of(func)))
    return None


@dataclass(slots=True)
class Loop:
    """Facts about one retry.

    ``waits`` is "none" (at once), "fixed" (the same for all callers) or "jittered"; ``catches`` holds
    the names of the exceptions it retries, ``condition`` the names in the condition of a library's retry,
    ``raises`` those it ends in if they are others; ``polls`` that it waits for a result and no failure;
    ``everything`` that it retries every `Exception`, bugs included; ``methods`` the HTTP methods it retries
    ("*": all); ``hints`` is "ignored", "unread" (a 429 that may be retried) or "shortened" (a server's
    Retry-After); ``budget`` "none", "tight" or "loose"; ``warnings`` those about the order of its policy.
    ``attempts`` is the number of attempts, first one included; ``uncapped`` that its waits grow without a
    maximum; ``odd_chance`` names a source of jitter that is not made for it; ``any_status`` that it retries
    every status but 200; ``per_call`` that it is made anew in each call of a function; ``remote`` that its
    calls leave the machine, as far as its file shows (see `remote`).
    ``places`` points at the part of the source that says so, by field;
    without one ``place`` is meant.
    """

    library: str
    label: str
    place: Place
    bounded: bool | None = None
    waits: str | None = None
    catches: tuple[str, ...] | None = None
    condition: tuple[str, ...] = ()
    raises: tuple[str, ...] | None = None
    polls: bool = False
    everything: bool | None = None
    statuses: tuple[int, ...] | None = None
    methods: tuple[str, ...] | None = None
    hints: str | None = None
    budget: str | None = None
    deadline_s: float | None = None
    timeout_s: float | None = None
    first_wait_s: float | None = None
    attempts: int | None = None
    uncapped: bool = False
    odd_chance: str | None = None
    any_status: bool = False
    per_call: bool = False
    by_hand: bool = False
    remote: bool = True
    blocking: bool = False
    filtered: bool = False
    unbounded_attempt: bool = False
    warnings: tuple[str, ...] = ()
    function: Function | None = None
    #: The function in which it is made, where it decorates none.
    maker: Function | None = None
    #: The statements that are retried, for a loop by hand; a decorated function has its own.
    body: list[ast.stmt] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)

    def retry_errors(self, names: tuple[str, ...] | None) -> None:
        """Note that it retries the errors of these names; ``None``: they are unknown."""
        self.catches = names
        self.everything = names == ("Exception",)

    def retries_only(self, *meanings: re.Pattern[str]) -> bool:
        """Return True if each of the errors that it names is one of these."""
        matched = (any(meaning.search(name) for meaning in meanings) for name in self.catches or ())
        return bool(self.catches) and all(matched)

    @property
    def is_a_poll(self) -> bool:
        """Return True if it waits for a state: a result, something to appear, or what it is named after."""
        named = any(f.awaits_a_state for f in (self.function, self.maker) if f is not None)
        return self.polls or named or self.retries_only(NOT_THERE)

    def at(self, name: str) -> Place:
        """Return the place to point to for ``name``; without one, that of the whole retry."""
        return self.places.get(name, self.place)
