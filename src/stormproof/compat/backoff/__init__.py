"""A drop-in for the documented API of backoff 2.2.1 and python-backoff 3.0, on Stormproof's own code.

``import backoff`` becomes ``from stormproof.compat import backoff``. Arguments, return values, call counts,
waits, details dicts, log records (logger ``"backoff"``) and raised errors are the same. So are the names
tests patch: ``time.sleep``, ``asyncio.sleep``, ``random.random``, ``random.uniform`` and
``datetime.datetime``, each looked up when it is used, and ``backoff._sync.time`` / ``.datetime`` /
``._next_wait`` / ``._maybe_call`` with their twins under ``backoff._async``.

Of python-backoff 3.0 it has ``on_try``, ``decay``, ``retry_context``, ``aretry_context`` and ``Attempt``.
The two contexts return one kind of object, not generators: it serves ``for`` and ``async for``.
Where the two differ the decorators do as 2.2.1 does: ``elapsed`` is read before each try (``on_try`` is given
the reading before that), not after it. Blocks, which 2.2.1 does not have, read it after.

Kept as they are, though surprising:

- ``max_tries`` stops the loop when the count of tries *equals* it, so 0, a negative number and 2.5 never
  stop it, and neither does None. ``max_time=0`` gives up at the first failure; None sets no limit.
- ``elapsed`` is read just before each try. ``max_time`` is compared with that reading, so the time the last
  try took is not counted. The last wait is cut to what ``max_time`` leaves.
- When a finite wait generator ends, the error is raised even with ``raise_on_giveup=False``.
- A keyword for the wait generator that is callable is called without arguments; if that raises TypeError
  the callable itself is passed on. (``runtime(value=...)`` depends on it.)
- A generator function is retried only while it is called, not while it is consumed.

Put right:

- ``expo`` and ``fibo`` stop at the largest float instead of failing with OverflowError near try 1,024 or
  1,476, and stop growing there.
- ``elapsed`` comes from the monotonic clock, so a clock change cannot end or prolong a retry. Where
  ``datetime.datetime`` has been replaced (a mock, a stub, freezegun) or time-machine is loaded, the
  replacement is asked instead, exactly as often as before: once at the start, once per try.
- The default log lines show the error or value that led to them. Before, it was ``StopIteration`` when the
  wait generator had ended, the last note of an error that has notes, or an unrelated error being handled
  further out. A target without ``__name__`` (a ``functools.partial``) is logged instead of failing.
- One decorator object applied to several functions logs once per event.
- Importing this leaves a level already set on the ``"backoff"`` logger alone (INFO where none is set).
- ``on_giveup`` of ``on_predicate`` always has ``value``; after the wait generator has ended,
  ``sys.exc_info()`` in ``on_giveup`` of ``on_exception`` is the error, not ``StopIteration``.
- Around a coroutine function, ``giveup``, ``predicate`` and handlers may return a coroutine in any way (a
  lambda, an object with ``async def __call__``): it is awaited.
- A handler that is both callable and iterable (a ``MagicMock``) is called. A list of exception types works
  like a tuple.
- A TypeError raised by a ``max_tries`` or ``max_time`` callable is raised, where ``max_tries`` used to
  become "no limit". A coroutine function as ``max_tries``, ``max_time`` or ``jitter`` is refused with a
  TypeError when the function is decorated.
"""

from . import types as types
from ._context import Attempt, aretry_context, retry_context
from ._decorator import on_exception, on_predicate
from ._jitter import full_jitter, random_jitter
from ._wait_gen import constant, decay, expo, fibo, runtime

__all__ = [
    "Attempt",
    "aretry_context",
    "constant",
    "decay",
    "expo",
    "fibo",
    "full_jitter",
    "on_exception",
    "on_predicate",
    "random_jitter",
    "retry_context",
    "runtime",
]

__version__ = "2.2.1"
"""The version of backoff whose API this is."""
