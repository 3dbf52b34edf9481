"""`typing.Generic` for type checkers; at run time a stand-in, since the import of `typing` costs too much."""

from __future__ import annotations

__all__ = ["Generic"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic
else:

    class Generic:
        """Base of generic classes: ``Generic[T]`` is the class itself."""

        def __class_getitem__(cls, item: object) -> type:
            return cls
