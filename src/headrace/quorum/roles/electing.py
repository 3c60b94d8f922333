"""What prospective and candidate share: asking every voter, counting, asking again.

Owns: the round of one vote. Must not know: what winning it means.

Invariants: a voter is counted once, by its key; the voter set does not change during a round,
because the log does not.
"""

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.messages import NONE, vote_request
from headrace.quorum.roles.role import Role
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.vote import VoteResponse


class Electing(Role):
    IS_PRE_VOTE: bool

    def on_enter(self) -> None:
        node = self.node
        self.granting: list[ReplicaKey] = [node.me.key] if node.is_voter else []
        self._asked: dict[int, ReplicaKey] = {}
        self._unanswered = [key for key in node.voters.latest.keys if key != node.me.key]
        self._deadline_ms = node.now_ms + node.election_delay_ms()
        if self._is_won():
            self.on_won()
        else:
            self._ask()

    def on_won(self) -> None:
        raise NotImplementedError

    def _is_won(self) -> bool:
        return len(self.granting) >= self.node.voters.latest.majority_count

    def _ask(self) -> None:
        node = self.node
        for key in self._unanswered:
            request = vote_request(node.me, key, node.epoch, node.log, pre_vote=self.IS_PRE_VOTE)
            self._asked[node.send(key.id, request)] = key
        self._ask_again_ms = node.now_ms + node.settings.request_timeout_ms

    def next_deadline_ms(self) -> int:
        return min(self._deadline_ms, self._ask_again_ms)

    def on_deadline(self) -> None:
        if self.node.now_ms >= self._deadline_ms:
            self.node.become_prospective()
        elif self.node.now_ms >= self._ask_again_ms:
            self._ask()

    def on_response(self, request_id: int, message: Message) -> None:
        key = self._asked.pop(request_id, None)
        if key is None or key not in self._unanswered or not isinstance(message, VoteResponse):
            return
        if message.error_code != NONE or not message.topics or not message.topics[0].partitions:
            return
        answer = message.topics[0].partitions[0]
        if answer.error_code != NONE or answer.leader_epoch != self.node.epoch:
            return
        self._unanswered.remove(key)
        if answer.vote_granted:
            self.granting.append(key)
            if self._is_won():
                self.on_won()
