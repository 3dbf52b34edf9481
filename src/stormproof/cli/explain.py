"""``stormproof explain``: what a policy does in the worst case, and whether that fits an SLO."""

from __future__ import annotations

import sys

from ._exit_codes import NEGATIVE, OK
from ._options import Option
from ._outcome import print_json
from ._policies import PYTHON, TARGET, named
from ._values import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._explain_facts import Facts

OPTIONS = (
    TARGET,
    Option("slo", "The time a call of yours may take, such as 2s.", "--slo", metavar="DURATION"),
    PYTHON,
    Option("as_json", "The same as JSON.", "--json", kind="flag"),
)


def command(target: str, slo: str | None, python: str | None, as_json: bool) -> int:
    """The schedule, the worst case and the load of a policy, and whether it fits an SLO.

    Retrying fits if it takes at most a third of the SLO. Exit code 1 if a policy does not fit.
    """
    from ._explain_facts import Facts

    slo_s = duration("--slo", slo, zero=False)
    facts = [Facts(name, policy, slo_s) for name, policy in named("explain", target, python).items()]
    if as_json:
        print_json({"policies": [each.as_data() for each in facts]})
    else:
        _show(facts)
    return NEGATIVE if any(each.fits is False for each in facts) else OK


def _show(facts: list[Facts]) -> None:
    from . import _explain_view
    from ._style import Style

    style = Style.of(sys.stdout)
    for place, each in enumerate(facts):
        if place:
            print()
        print("\n".join(_explain_view.lines(each, style)))
