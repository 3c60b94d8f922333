"""What every decision is made of: its context, its records, and its no.

Owns: `DecisionContext` (what a decision may look at beside the image and the request) and
`Refusal`. The configuration is this controller's own: it gives the defaults of
new topics and what their configs fall back to.

A decision is `(image, request, context) -> (records, response)`: pure but for what it draws from
`Random`. A refusal is a value, never an exception.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.base.broker_config import BrokerConfig
from headrace.base.randomness import Random
from headrace.wire.kafka.errors import ErrorCode

Records = list[Any]
"""Metadata records, in the order in which they are replayed."""


@dataclass(frozen=True, slots=True)
class DecisionContext:
    config: BrokerConfig
    random: Random
    api_version: int
    principal: str = "User:ANONYMOUS"


class Refusal(NamedTuple):
    """The protocol's error code and a sentence."""

    error: ErrorCode
    message: str
