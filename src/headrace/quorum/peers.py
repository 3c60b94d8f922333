"""The way to other replicas as a seam: sockets in `runtime.peers`, a seeded network in `testing`.

Owns: the contract of a sender. Must not know: addresses, connections, what a message means.

Invariants: `on_answer` runs exactly once, on the loop's thread, never from inside `send`; nothing
waits for ever, because the sender has a request time-out of its own.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.wire.kafka.message import Message

OnAnswer = Callable[[Message | None, bool], None]
"""The response, or None if none will come; and whether nobody listens there at all."""


class Peers(Protocol):
    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:
        """Ask a node. Negative ids are bootstrap servers whose id nobody knows yet: -2, -3, …
        in the order of the configuration."""
        ...
