"""What all roles share: how a role is entered and left, and what it does when it is not asked.

Owns: the interface of a role and the answers of one that does not lead. Must not know: any one
role. A role holds the state that dies with it; what outlives it is the node's.

Invariants: a role changes only through the node's `become_…`, `follow` and `unattach`, and only to
a role in its `NEXT`; after such a call the old role does nothing more.
"""

from typing import TYPE_CHECKING, ClassVar

from headrace.quorum import replies
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.events import Proposed, SnapshotReceived
from headrace.quorum.log_view import SnapshotId
from headrace.wire.kafka.message import Message

if TYPE_CHECKING:
    from headrace.quorum.node import RaftNode


class Role:
    NAME: ClassVar[str]
    NEXT: ClassVar[frozenset[str]]

    def __init__(self, node: "RaftNode") -> None:
        self.node = node

    # -- coming and going ----------------------------------------------------------------------

    def on_enter(self) -> None:
        """The role holds from now on."""

    def on_exit(self) -> None:
        """Another role holds, and has not begun."""

    def next_deadline_ms(self) -> int | None:
        """When to look at the clock again."""
        return None

    def on_deadline(self) -> None:
        """`next_deadline_ms` has come."""

    def vouches_for_leader(self) -> bool:
        """Do we tell others who leads? Only one that leads, or hears from the leader, does: else
        voters that look for a new leader would send each other back to the old one."""
        return False

    # -- elections -----------------------------------------------------------------------------

    def grants(self, key: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:
        """Our vote, in our own epoch. `is_up_to_date`: the candidate's log holds all of ours."""
        raise NotImplementedError

    def on_vote_granted(self) -> None:
        """Our vote of this epoch is given."""

    def on_leader_resigned(self, delay_ms: int) -> None:
        """The leader of this epoch ended it; we are to look for votes after `delay_ms`."""

    def resign(self) -> None:
        """Lead no more."""

    # -- messages ------------------------------------------------------------------------------

    def on_response(self, request_id: int, message: Message) -> None:
        """An answer; one to a request of an older role is not ours to read."""

    def on_failure(self, request_id: int, refused: bool) -> None:
        """No answer will come."""

    def on_leader_request(self, token: int, message: Message) -> None:
        """A request that only a leader serves."""
        self.node.reply(token, replies.not_leader(self.node, message))

    # -- the log -------------------------------------------------------------------------------

    def on_propose(self, batch: bytearray, epoch: int) -> None:  # noqa: ARG002
        self.node.ready.proposed = Proposed(-1, -1)

    def on_log_synced(self) -> None:
        """More of the log is durable."""

    def on_snapshot_received(self, event: SnapshotReceived) -> None:
        """A fetch of a role that is gone: the snapshot is of no use."""
        if self.node.snapshots.size_of(event.snapshot_id) is None:
            self.node.ready.delete_snapshots.append(event.snapshot_id)

    def on_snapshot_failed(self, snapshot_id: SnapshotId) -> None:
        """A fetched snapshot is damaged."""


def grants_without_leader(
    node: "RaftNode", key: ReplicaKey, is_up_to_date: bool, pre_vote: bool
) -> bool:
    """The vote of a replica that follows nobody. A vote in an epoch that has a leader is void, so
    it is not given; a pre-vote binds nobody and is about the next epoch."""
    if not is_up_to_date:
        return False
    if pre_vote:
        return True
    return not node.has_leader and node.election.voted_key in (None, key)
