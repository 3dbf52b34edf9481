"""State that many processes share, on Redis or Valkey: `RedisStore`.

``Budget(..., store=store, name="fraud-score")`` and ``Limiter(..., store=store, name=...)`` hold for all
processes that give the same name. See docs/fleet.md.
"""

from __future__ import annotations

from ._primitives.extras import extra

with extra("redis"):
    from ._fleet.store import RedisStore, StoreUnavailable

__all__ = ["RedisStore", "StoreUnavailable"]
