"""What a decision may look at beside the image and the request.

Owns: `DecisionContext` and the `Random` seam. The configuration is this controller's own: it
gives the defaults of new topics and what their configs fall back to.
"""

from dataclasses import dataclass
from typing import Protocol

from headrace.base.broker_config import BrokerConfig


class Random(Protocol):
    """The part of `random.Random` that decisions draw from."""

    def randbytes(self, n: int, /) -> bytes: ...

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class DecisionContext:
    config: BrokerConfig
    random: Random
    api_version: int
    principal: str = "User:ANONYMOUS"
