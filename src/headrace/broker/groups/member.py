"""One member of a classic group, and the values a member sends and is answered with.

Owns: what a member told of itself, its assignment, and which answers it still waits for.
Must not know: the other members, the group's state, the wire.
Spec: Kafka's classic group protocol (JoinGroup 0-9, SyncGroup 0-5), KIP-345 static members.

Invariant: at most one JoinGroup and one SyncGroup of a member wait at a time; when a member
asks again, the older question is answered before the newer one takes its place.
"""

from dataclasses import dataclass

from headrace.base.promise import Promise
from headrace.wire.kafka.errors import ErrorCode

UNKNOWN_MEMBER_ID = ""
UNKNOWN_GENERATION_ID = -1


@dataclass(frozen=True, slots=True)
class Protocol:
    """One assignment strategy that a member offers, with its metadata for that strategy."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinQuestion:
    """A JoinGroup request, whatever its version."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    requires_known_member_id: bool = False
    """From version 4 a new dynamic member is first given its id (KIP-394)."""
    can_skip_assignment: bool = False
    """From version 9 a restarted static leader may be told to assign nothing (KIP-814)."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    error: ErrorCode
    member_id: str
    generation_id: int = UNKNOWN_GENERATION_ID
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncQuestion:
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """Who leaves: by member id, by group instance id, or both."""

    member_id: str
    group_instance_id: str | None


class Member:
    """Mutable; owned by its group."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: tuple[Protocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """It has not yet been told its generation, so it can't send heartbeats."""
        self.session_deadline_ms = 0
        self.joining: Promise[JoinAnswer] | None = None
        self.syncing: Promise[SyncAnswer] | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_expirable(self) -> bool:
        """Whether silence counts: a member that waits for our answer can't send heartbeats.

        A new member is the exception: clients that give up and join again under another id
        would otherwise fill a long rebalance with ghosts.
        """
        return self.is_new or (self.joining is None and self.syncing is None)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """The candidate this member likes best."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise AssertionError("a candidate is supported by every member")
