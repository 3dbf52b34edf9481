"""`pip install stormproof[cli]`, then `stormproof schema`: ModuleNotFoundError: No module named 'redis'."""

from __future__ import annotations

import json
import subprocess
import sys

from stormproof._config.catalog import STORE, Form
from stormproof._config.schema import document

WITHOUT_REDIS = """
import sys
sys.modules["redis"] = None  # importing it now fails, as where it is not installed
from stormproof.cli import main
sys.exit(main(["schema"]))
"""


def test_schema_is_the_same_without_redis() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_REDIS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == document()


def test_schema_of_the_store_agrees_with_its_class() -> None:
    as_it_is = Form("redis.RedisStore", STORE.options)
    assert STORE.defaults() == as_it_is.defaults()
    assert as_it_is.about().startswith(STORE.about())
