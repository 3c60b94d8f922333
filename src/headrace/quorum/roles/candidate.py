"""Candidate: a voter that began a new epoch, voted for itself and asks the others.

Its epoch and its vote are on disk before the first request leaves.

From here:
- leader       a majority voted for it
- prospective  the election time-out passed; the next epoch needs another pre-vote
- follower     a message told who leads this epoch or a newer one
- unattached   a message told of a newer epoch
- observer     a message told of a newer epoch, and it is no longer a voter
"""

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.roles.electing import Electing


class Candidate(Electing):
    NAME = "candidate"
    NEXT = frozenset({"leader", "prospective", "follower", "unattached", "observer"})
    IS_PRE_VOTE = False

    def on_won(self) -> None:
        self.node.become_leader(self.granting)

    def grants(self, key: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002
        return pre_vote and is_up_to_date
