"""One target under atheris, in a process of its own: libFuzzer ends the process it runs in.

``python -m verification.fuzzing.guided MODULE TARGET INPUTS SECONDS SEED FOLDER``: TARGET of MODULE, until
INPUTS were fed or
SECONDS are over; it then says how many it fed. FOLDER keeps the corpus, and an input that broke.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from pathlib import Path

#: Instrumented: ours, and the pure Python parsers that ours rely on.
_GUIDED = ["stormproof", "tomllib"]
#: An input that takes this long has hung. The target's own limit is tighter, but is looked at afterwards.
_HANG_S = 20
_MOST_MEMORY_MB = 2048


#: Begins the line that says how many inputs were fed, all of which held.
FED = "fed:"


def main(module: str, name: str, inputs: int, seconds: float, seed: int, folder: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=[*_GUIDED, module.rpartition(".")[2]]):
        targets = importlib.import_module(module).TARGETS
    from .inputs import encoded, reproduction, seeds

    target = next(target for target in targets if target.name == name)
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(data)
    words = folder / "words"
    words.write_text("".join(f'"{_escaped(encoded(word))}"\n' for word in target.words), encoding="ascii")

    fed = 0
    until = time.monotonic() + seconds

    def feed(data: bytes) -> None:
        nonlocal fed
        try:
            target.feed(data)
        except Exception:
            sys.stdout.write(f"{traceback.format_exc()}{reproduction(target, data)}\n")
            sys.stdout.flush()
            raise
        fed += 1
        if fed == inputs or time.monotonic() > until:
            sys.stdout.write(f"{FED} {fed}\n")
            sys.stdout.flush()
            os._exit(0)

    options = {
        "seed": seed,
        "max_len": target.longest,
        "timeout": _HANG_S,
        "rss_limit_mb": _MOST_MEMORY_MB,
        "dict": words,
        "artifact_prefix": f"{folder}/broken-",
        "verbosity": 0,
    }
    atheris.Setup([sys.argv[0], *(f"-{key}={value}" for key, value in options.items()), str(corpus)], feed)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    _, module, name, inputs, seconds, seed, folder = sys.argv
    main(module, name, int(inputs), float(seconds), int(seed), Path(folder))
