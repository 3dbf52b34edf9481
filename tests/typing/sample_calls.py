"""`call` and `acall` take the function's own arguments and give its result."""

from collections.abc import Sequence
from typing import TypeVar, assert_type

import stormproof as sp

T = TypeVar("T")
policy = sp.retry(on=ConnectionError)
assert_type(policy, sp.Policy)


def area(width: float, height: float = 1.0, *, unit: str = "m") -> float:
    return width * height


async def name_of(key: int) -> str:
    return str(key)


def first(items: Sequence[T]) -> T:
    return items[0]


assert_type(policy.call(area, 2.0), float)
assert_type(policy.call(area, 2.0, height=3.0, unit="cm"), float)
assert_type(policy.call(lambda: [1]), list[int])
assert_type(policy.call(first, ["a"]), str)
policy.call(area, "2")  # expect-error
policy.call(area)  # expect-error
policy.call(area, 2.0, unit=3)  # expect-error
policy.call(area, 2.0, units="m")  # expect-error
policy.call(3)  # expect-error


async def use_async() -> None:
    assert_type(await policy.acall(name_of, 1), str)
    await policy.acall(name_of, "1")  # expect-error
    await policy.acall(name_of)  # expect-error
    policy.acall(name_of, 1).upper()  # expect-error
    await policy.acall(area, 2.0)  # expect-error
