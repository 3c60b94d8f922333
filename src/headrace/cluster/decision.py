"""What every decision is made of: its context, its records, and its no.

Owns: `DecisionContext` (what a decision may look at beside the image and the request),
`Refusal`, and the switch of replication. The configuration is this controller's own: it gives
the defaults of new topics and what their configs fall back to.

A decision is `(image, request, context) -> (records, response)`: pure but for what it draws from
`Random`. A refusal is a value, never an exception.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.base.broker_config import BrokerConfig
from headrace.base.randomness import Random
from headrace.cluster.sessions import BrokerSessions
from headrace.wire.kafka.errors import ErrorCode

Records = list[Any]
"""Metadata records, in the order in which they are replayed."""


UNCLEAN_ELECTION_KEY = "unclean.leader.election.enable"
MIN_INSYNC_KEY = "min.insync.replicas"


def _no_sessions() -> BrokerSessions:
    return BrokerSessions(timeout_ms=0)


@dataclass(frozen=True, slots=True)
class DecisionContext:
    config: BrokerConfig
    random: Random
    api_version: int
    principal: str = "User:ANONYMOUS"
    now_ms: int = 0
    """Monotonic."""
    sessions: BrokerSessions = field(default_factory=_no_sessions)
    """Read only: what was heard is noted by the controller."""
    cluster_id: str | None = None
    """Not checked where it is not known."""


class Refusal(NamedTuple):
    """The protocol's error code and a sentence."""

    error: ErrorCode
    message: str
