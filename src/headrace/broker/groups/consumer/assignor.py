"""What an assignor is given and what it gives.

Owns: `GroupSpec`. Must not know: epochs, members beyond what is assigned by, records.
Spec: KIP-848's server side assignors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.broker.groups.consumer.member import Target


@dataclass(frozen=True, slots=True)
class MemberSpec:
    instance_id: str | None
    topic_ids: frozenset[bytes]
    """Of the topics it is subscribed to; those that exist."""
    current: Target
    """Its part of the target until now."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Of every topic that a member is subscribed to, by topic id."""

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        return len({member.topic_ids for member in self.members.values()}) <= 1


GroupAssignment = dict[str, Target]
Assignor = Callable[[GroupSpec], GroupAssignment]
