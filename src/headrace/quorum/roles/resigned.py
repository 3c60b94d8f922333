"""Resigned: it led this epoch and leads no more, until somebody begins the next one.

Entered when a majority stopped fetching, on request, when it was removed from the voters, and at
a restart: entries that it had not synced may be gone, and others must not take their place in
the same epoch. It tells the voters, until they answer, that the epoch is over.

From here:
- prospective  the election time-out passed
- follower     a message told who leads a newer epoch
- unattached   a message told of a newer epoch
- observer     it is no longer a voter
"""

from typing import TYPE_CHECKING

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.messages import end_quorum_epoch_request
from headrace.quorum.roles.role import Role
from headrace.wire.kafka.message import Message

if TYPE_CHECKING:
    from headrace.quorum.node import RaftNode


class Resigned(Role):
    NAME = "resigned"
    NEXT = frozenset({"prospective", "follower", "unattached", "observer"})

    def __init__(self, node: "RaftNode", preferred: list[ReplicaKey]) -> None:
        super().__init__(node)
        self._preferred = preferred
        """Whom to elect: the voters with the longest logs first."""

    def on_enter(self) -> None:
        node = self.node
        # Nobody else could be waited for by a voter that is alone.
        is_alone = len(node.voters.latest) == 1 and node.is_voter
        self._deadline_ms = node.now_ms + (0 if is_alone else node.election_delay_ms())
        self._asked: dict[int, ReplicaKey] = {}
        self._unanswered = [key for key in self._preferred if key != node.me.key]
        self._tell()

    def _tell(self) -> None:
        node = self.node
        request = end_quorum_epoch_request(node.me, node.epoch, self._preferred)
        for key in self._unanswered:
            self._asked[node.send(key.id, request)] = key
        self._tell_again_ms = node.now_ms + node.settings.request_timeout_ms

    def next_deadline_ms(self) -> int:
        return min(self._deadline_ms, self._tell_again_ms)

    def on_deadline(self) -> None:
        node = self.node
        if node.now_ms < self._deadline_ms:
            self._tell()
        elif node.may_lead:
            node.become_prospective()
        else:
            node.unattach(node.epoch)

    def on_response(self, request_id: int, message: Message) -> None:  # noqa: ARG002
        key = self._asked.pop(request_id, None)
        if key in self._unanswered:
            self._unanswered.remove(key)

    def grants(self, key: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002
        return pre_vote and is_up_to_date
