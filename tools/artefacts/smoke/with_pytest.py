"""The pytest fixture from an installed wheel, in a pytest that knows of Stormproof by its entry point
alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TEST = """
import stormproof as sp

left = [ConnectionError("refused")] * 3 + ["done"]

@sp.retry(on=ConnectionError)
def fetch():
    answer = left.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return answer

def test_it(stormproof_instant):
    assert fetch() == "done"
    assert len(stormproof_instant.sleeps) == 3
"""

Path("test_it.py").write_text(TEST)
command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
done = subprocess.run(command, capture_output=True, text=True, check=False)
assert done.returncode == 0, done.stdout + done.stderr
print("a test with the fixture stormproof_instant")
