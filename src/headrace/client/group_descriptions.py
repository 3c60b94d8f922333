"""What a group looks like to an administrator, of whatever kind it is.

Owns: the values. Must not know: how they are asked for (`group_admin`, `share_groups`) or shown.
"""

from dataclasses import dataclass

from headrace.client.assignment import Assignment

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: Assignment
    target: Assignment | None = None
    """What it should own; None where it is what it does, as in classic groups."""
    epoch: int | None = None
    protocol: str = CLASSIC
    """That it speaks: classic members may be in consumer groups."""
    subscription: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    """The assignor: of the leader in classic groups, of the coordinator in consumer groups."""
    coordinator: str
    members: tuple[GroupMemberDescription, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None
