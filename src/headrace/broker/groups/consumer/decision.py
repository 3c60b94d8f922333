"""What a decision on a consumer group is given, and what it is.

Owns: `World` and `Decision`. Deciding changes nothing: a decision's records do, once they are
in the log. Must not know: which decisions there are.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headrace.broker.groups.consumer.records import Record
from headrace.broker.groups.consumer.topics import Topics
from headrace.broker.groups.settings import ConsumerSettings

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class World:
    """What lies around a group: the cluster's topics, and the rules for this group."""

    topics: Topics
    settings: ConsumerSettings
    metadata_version: int = 0


@dataclass(slots=True)
class Decision(Generic[A]):
    answer: A
    records: list[Record] = field(default_factory=list)
    is_refreshed: bool = False
    """The group's topics were looked at."""
