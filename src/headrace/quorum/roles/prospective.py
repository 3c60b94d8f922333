"""Prospective: a voter that asks whether it could win, before it disturbs anybody (KIP-996).

It stays in its epoch and changes nothing on disk. Voters that hear from a leader say no, so a
voter that comes back from a partition costs a healthy leader nothing.

From here:
- candidate    a majority would vote for it
- prospective  the election time-out passed: another round
- follower     an answer told who leads
- unattached   a message told of a newer epoch, or it gave its vote to another
- observer     it is no longer a voter
"""

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.roles.electing import Electing
from headrace.quorum.roles.role import grants_without_leader


class Prospective(Electing):
    NAME = "prospective"
    NEXT = frozenset({"candidate", "prospective", "follower", "unattached", "observer"})
    IS_PRE_VOTE = True

    def on_won(self) -> None:
        self.node.become_candidate(self.granting)

    def grants(self, key: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:
        return grants_without_leader(self.node, key, is_up_to_date, pre_vote)

    def on_vote_granted(self) -> None:
        self.node.unattach(self.node.epoch)
