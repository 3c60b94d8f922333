"""Observer: a replica that, as far as its log tells, is no voter. It fetches and never campaigns.

It is a broker, a voter to be, one that was removed, one whose disk was lost and whose new directory
id is in no voter set, or one whose log lacks what it had (`LogView.had`). It still answers a Vote
that names its id *and* directory: the entry that makes it a voter may not have come yet, and the
majority may need it (KIP-853).

From here:
- observer     a message told of a newer epoch or of who leads
- follower     an entry or a truncation made it a voter, or it has again what it lacked, and it
               knows the leader
- unattached   the same, and it does not
"""

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.roles.fetching import Fetching
from headrace.quorum.roles.role import grants_without_leader


class Observer(Fetching):
    NAME = "observer"
    NEXT = frozenset({"observer", "follower", "unattached"})

    def on_enter(self) -> None:
        self._silent_since_ms = self.node.now_ms
        super().on_enter()

    def source_id(self) -> int | None:
        """The leader; without one, or one that does not answer, anybody who may know."""
        node = self.node
        if node.has_leader and node.leader_id != node.me.node_id and not self._is_leader_silent():
            return node.leader_id
        candidates = node.peers_to_ask()
        return candidates[node.random.randrange(len(candidates))] if candidates else None

    def _is_leader_silent(self) -> bool:
        silent_ms = self.node.now_ms - self._silent_since_ms
        return silent_ms >= self.node.settings.fetch_timeout_ms

    def vouches_for_leader(self) -> bool:
        """An observer stays one however long the leader is silent, so time must be asked."""
        return self.has_fetched and not self._is_leader_silent()

    def on_fetched(self) -> None:
        self._silent_since_ms = self.node.now_ms

    def on_not_leading(self) -> None:
        self.has_fetched = False
        self._silent_since_ms = self.node.now_ms - self.node.settings.fetch_timeout_ms

    def on_failure(self, request_id: int, refused: bool) -> None:
        if refused and request_id == self._request_id:
            # Nobody listens where the leader was: whoever leads now is known by others.
            self.on_not_leading()
        super().on_failure(request_id, refused)

    def grants(self, key: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:
        if self.node.has_leader:
            return pre_vote and is_up_to_date and not self.vouches_for_leader()
        return grants_without_leader(self.node, key, is_up_to_date, pre_vote)
