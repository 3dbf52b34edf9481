"""The decorator may also stand outside classmethod and staticmethod."""

from typing import assert_type

import stormproof as sp


class Client:
    @sp.retry(on=ConnectionError)
    @classmethod
    def connect(cls, host: str) -> "Client":
        return cls()

    @sp.retry(on=ConnectionError)
    @staticmethod
    def parse(text: str) -> int:
        return int(text)


assert_type(Client.connect("h"), Client)
assert_type(Client().connect("h"), Client)
assert_type(Client.parse("1"), int)
assert_type(Client().parse("1"), int)
Client.connect(1)  # expect-error
Client.parse(1)  # expect-error
