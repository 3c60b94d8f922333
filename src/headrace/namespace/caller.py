"""Who asks: the user of a connection and the identity of one call."""


class Caller:
    """`client_id` and `call_id` name the call for the retry cache; `address` is the peer's IP.

    One is made for every change, and its fields are read many times: of a tuple's that would cost
    three times as much.
    """

    __slots__ = ("address", "call_id", "client_id", "groups", "user")

    def __init__(
        self,
        user: str,
        groups: tuple[str, ...] = (),
        client_id: bytes = b"",
        call_id: int = -1,
        address: str = "",
    ) -> None:
        self.user = user
        self.groups = groups
        self.client_id = client_id
        self.call_id = call_id
        self.address = address
