"""Who asks: the user of a connection and the identity of one call."""

from typing import NamedTuple


class Caller(NamedTuple):
    """`client_id` and `call_id` name the call for the retry cache; `address` is the peer's IP."""

    user: str
    groups: tuple[str, ...] = ()
    client_id: bytes = b""
    call_id: int = -1
    address: str = ""
