"""The decorator may also stand outside classmethod and staticmethod."""

from typing import assert_type

import holdfast as hf


class Client:
    @hf.retry(on=ConnectionError)
    @classmethod
    def connect(cls, host: str) -> "Client":
        return cls()

    @hf.retry(on=ConnectionError)
    @staticmethod
    def parse(text: str) -> int:
        return int(text)


assert_type(Client.connect("h"), Client)
assert_type(Client().connect("h"), Client)
assert_type(Client.parse("1"), int)
assert_type(Client().parse("1"), int)
Client.connect(1)  # expect-error
Client.parse(1)  # expect-error
