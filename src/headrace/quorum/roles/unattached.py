"""Unattached: a voter in an epoch whose leader it does not know. It may have voted.

From here:
- prospective  the election time-out passed
- follower     a message told who leads
- unattached   a message told of a newer epoch
- observer     it is no longer a voter
"""

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.roles.role import Role, grants_without_leader


class Unattached(Role):
    NAME = "unattached"
    NEXT = frozenset({"prospective", "follower", "unattached", "observer"})

    def on_enter(self) -> None:
        node = self.node
        # Nobody else could be waited for by a voter that is alone.
        is_alone = len(node.voters.latest) == 1 and node.is_voter
        self._deadline_ms = node.now_ms + (0 if is_alone else node.election_delay_ms())

    def next_deadline_ms(self) -> int:
        return self._deadline_ms

    def on_deadline(self) -> None:
        self.node.become_prospective()

    def grants(self, key: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:
        return grants_without_leader(self.node, key, is_up_to_date, pre_vote)

    def on_vote_granted(self) -> None:
        self._deadline_ms = self.node.now_ms + self.node.election_delay_ms()
