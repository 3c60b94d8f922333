"""Follower: a voter that knows the leader of its epoch and fetches from it.

From here:
- prospective  the leader did not answer for the fetch time-out, refused the connection, or
               ended its epoch
- follower     a message told who leads a newer epoch
- unattached   a message told of a newer epoch
- observer     an entry or a truncation took it out of the voters
"""

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.roles.fetching import Fetching


class Follower(Fetching):
    NAME = "follower"
    NEXT = frozenset({"prospective", "follower", "unattached", "observer"})

    def on_enter(self) -> None:
        node = self.node
        # One commit answers all waiting fetches at once: without the dice all followers would
        # miss the leader in the same moment, and split the vote.
        jitter_ms = node.random.randrange(max(1, node.settings.election_timeout_ms // 2))
        self._patience_ms = node.settings.fetch_timeout_ms + jitter_ms
        self._deadline_ms = node.now_ms + self._patience_ms
        super().on_enter()

    def source_id(self) -> int:
        return self.node.leader_id

    def on_fetched(self) -> None:
        self._deadline_ms = self.node.now_ms + self._patience_ms

    def next_deadline_ms(self) -> int:
        fetch_ms = super().next_deadline_ms()
        return self._deadline_ms if fetch_ms is None else min(fetch_ms, self._deadline_ms)

    def on_deadline(self) -> None:
        if self.node.now_ms >= self._deadline_ms:
            self.node.become_prospective()
        else:
            super().on_deadline()

    def on_failure(self, request_id: int, refused: bool) -> None:
        if refused and request_id == self._request_id:
            # Nobody listens where the leader did.
            self.on_not_leading()
        super().on_failure(request_id, refused)

    def on_not_leading(self) -> None:
        """The leader resigned or restarted. Again the dice keep two followers apart."""
        soon_ms = max(1, self.node.settings.election_timeout_ms // 5)
        if self._deadline_ms > self.node.now_ms + soon_ms:
            self.on_leader_resigned(self.node.random.randrange(soon_ms))

    def on_leader_resigned(self, delay_ms: int) -> None:
        self.has_fetched = False
        self._deadline_ms = min(self._deadline_ms, self.node.now_ms + delay_ms)

    def grants(self, key: ReplicaKey, *, is_up_to_date: bool, pre_vote: bool) -> bool:  # noqa: ARG002
        # One that the leader has not answered yet can't vouch for it.
        return pre_vote and is_up_to_date and not self.has_fetched
