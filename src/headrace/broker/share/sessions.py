"""Share sessions (KIP-932): a member names the partitions that it fetches once.

Owns: the sessions of this broker: epochs, partitions, the connection that each lives on.
Must not know: records, logs, what a member holds.

    epoch  0  a new session, in place of the member's old one
    epoch  n  the session's next request; n goes from 1 to 2³¹-1 and to 1 again
    epoch -1  the last request: what it acknowledges counts, then the session ends

Invariants: a member of a group has one session at most; there are never more than `sessions_max`;
a session ends with its connection.
"""

from collections import Counter
from collections.abc import Iterable

from headrace.wire.kafka.errors import ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1

SessionKey = tuple[str, str]
"""Group id and member id."""
PartitionKey = tuple[bytes, int]
"""Topic id and partition."""


class ShareSession:
    __slots__ = ("connection_id", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection_id: int) -> None:
        self.key = key
        self.connection_id = connection_id
        self.epoch = 1
        """What the next request must say."""
        self.partitions: dict[PartitionKey, None] = {}

    def update(self, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        for key in added:
            self.partitions[key] = None
        for key in forgotten:
            self.partitions.pop(key, None)

    def in_turn(self) -> list[PartitionKey]:
        """The partitions, another one first each time, so that none is always served last."""
        keys = list(self.partitions)
        if not keys:
            return keys
        turn = self.epoch % len(keys)
        return keys[turn:] + keys[:turn]


class ShareSessions:
    def __init__(self, sessions_max: int) -> None:
        self.sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, set[SessionKey]] = {}
        self._group_sizes: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def open(self, key: SessionKey, connection_id: int) -> ShareSession | ErrorCode:
        """A new session; the member's old one is over."""
        self.remove(key)
        if len(self._sessions) >= self.sessions_max:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[key] = ShareSession(key, connection_id)
        self._by_connection.setdefault(connection_id, set()).add(key)
        self._group_sizes[key[0]] += 1
        return session

    def next(self, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        """The session that a request with this epoch goes on with, or ends."""
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = epoch + 1 if epoch < _EPOCH_MAX else 1
        return session

    def remove(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._group_sizes[key[0]] -= 1
            if not self._group_sizes[key[0]]:
                del self._group_sizes[key[0]]
            keys = self._by_connection[session.connection_id]
            keys.discard(key)
            if not keys:
                del self._by_connection[session.connection_id]
        return session

    def of_connection(self, connection_id: int) -> list[SessionKey]:
        return sorted(self._by_connection.get(connection_id, ()))

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session here."""
        return group_id in self._group_sizes
