"""``stormproof lab``: the page on which a policy meets an outage, served on loopback."""

from __future__ import annotations

import os
import re

from ._exit_codes import OK
from ._options import Option
from ._outcome import CommandError
from ._values import whole

OPTIONS = (
    Option("port", "The port on 127.0.0.1; 0 takes a free one.", "--port", default="0", metavar="NUMBER"),
    Option("no_open", "Only print the address.", "--no-open", kind="flag"),
    Option("link", "Open the run of a link that another lab gave.", "--link", default="", metavar="LINK"),
)


def command(port: str, no_open: bool, link: str) -> int:
    """Try policies against simulated outages, in the browser.

    Serves one page on 127.0.0.1 and opens it. The address holds a token that is new at each start.
    Ctrl-C ends it.
    """
    try:
        from ..lab.page import server
        from ..lab.results import report
    except ModuleNotFoundError as missing:
        raise CommandError(f"lab: {missing.name} is missing: install stormproof[lab]") from missing

    number = whole("--port", port, least=0, most=65535)
    shared = re.search(r"run=([\w-]+)\Z", link)
    if link and shared is None:
        raise CommandError("--link: must end in run=..., as *Copy link to this run* gives it")

    def ready(address: str) -> None:
        if shared is not None:
            address += f"&run={shared[1]}"
        print(f"The lab is at {address}\nCtrl-C ends it.", flush=True)
        if not no_open:
            import webbrowser

            webbrowser.open(address)

    try:
        server.serve(number, ready=ready)
    except report.PageMissing as problem:
        raise CommandError(str(problem)) from problem
    except OSError as problem:
        why = str(problem) if problem.errno is None else os.strerror(problem.errno)
        raise CommandError(f"cannot serve on 127.0.0.1:{number}: {why}") from problem
    except KeyboardInterrupt:
        pass  # how it is meant to end
    return OK
