"""Methods of every kind bind as they did before they were decorated."""

from typing import Self, assert_type

import stormproof as sp

policy = sp.Policy(sp.Retry(on=ConnectionError), name="client")


class Client:
    def __init__(self, host: str) -> None:
        self.host = host

    @policy
    def get(self, path: str) -> str:
        return self.host + path

    @policy
    async def aget(self, path: str) -> str:
        return self.host + path

    @classmethod
    @policy
    def connect(cls, host: str) -> Self:
        return cls(host)

    @staticmethod
    @policy
    def parse(text: str) -> int:
        return int(text)

    @property
    @policy
    def banner(self) -> str:
        return self.host


class Child(Client):
    pass


client = Client("h")
assert_type(client.get("/"), str)
assert_type(Client.get(client, "/"), str)
assert_type(Client.connect("h"), Client)
assert_type(Child.connect("h"), Child)
assert_type(client.parse("1"), int)
assert_type(Client.parse("1"), int)
assert_type(client.banner, str)
client.get(1)  # expect-error
client.get(client, "/")  # expect-error
Client.connect(1)  # expect-error
Client.parse(1)  # expect-error


async def use_async() -> None:
    assert_type(await client.aget("/"), str)
    await client.aget(1)  # expect-error
