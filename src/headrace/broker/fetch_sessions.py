"""Incremental fetch sessions (KIP-227): a consumer names its partitions once.

Owns: the sessions of this broker, and what each was last told.
Must not know: logs, connections.

    epoch -1  no session: a full fetch; the session named, if any, is closed
    epoch  0  a full fetch that asks for a new session
    epoch  n  incremental: changes to the session's partitions, answered with changes only

Invariants: a session's epoch is the one its next request must carry, 1 … 2³¹-1, then 1 again;
there are never more than `slots_max` sessions: the least recently used gives way.
"""

from collections import OrderedDict
from collections.abc import Iterable

from headrace.base.randomness import Random
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot import FetchFrame

TopicKey = str | bytes
_EPOCH_MAX = 2**31 - 1


class Wanted:
    """One partition of a fetch: what the client asks, and what it was last told."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "told_error",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
    )

    def __init__(
        self,
        topic: TopicKey,
        index: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        max_bytes: int,
        log_start_offset: int = -1,
    ) -> None:
        self.topic = topic
        self.index = index
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.max_bytes = max_bytes
        self.log_start_offset = log_start_offset
        """Of a follower's own log."""
        self.told_high_watermark = -1
        self.told_log_start_offset = -1
        self.told_error = 0


class FetchSession:
    __slots__ = ("answered_ms", "epoch", "session_id", "uses_topic_ids", "wanted")

    def __init__(self, session_id: int, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.answered_ms = 0
        """When a replica got its last answer; monotonic."""
        self.wanted: dict[tuple[TopicKey, int], Wanted] = {}

    def update(self, frame: FetchFrame) -> None:
        wanted = self.wanted
        for asked in wanted_of(frame):
            key = (asked.topic, asked.index)
            known = wanted.get(key)
            if known is None:
                wanted[key] = asked
            else:
                known.current_leader_epoch = asked.current_leader_epoch
                known.fetch_offset = asked.fetch_offset
                known.last_fetched_epoch = asked.last_fetched_epoch
                known.max_bytes = asked.max_bytes
                known.log_start_offset = asked.log_start_offset
        for topic, indexes in frame.forgotten:
            for index in indexes:
                wanted.pop((topic, index), None)

    def to_the_end(self, served: Iterable[Wanted]) -> None:
        """Partitions that were just served go last, so that the others get their turn."""
        wanted = self.wanted
        for one in served:
            key = (one.topic, one.index)
            # Not if it was forgotten meanwhile, nor if it was asked for anew since.
            if wanted.get(key) is one:
                wanted[key] = wanted.pop(key)


def wanted_of(frame: FetchFrame) -> list[Wanted]:
    return [
        Wanted(
            topic,
            index,
            current_leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            max_bytes,
            log_start_offset,
        )
        for topic, partitions in frame.topics
        for (
            index,
            current_leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            max_bytes,
        ) in partitions
    ]


class FetchSessions:
    """All sessions of a broker, least recently used first."""

    def __init__(self, random: Random, slots_max: int) -> None:
        self._random = random
        self._slots_max = slots_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(
        self, frame: FetchFrame, uses_topic_ids: bool
    ) -> tuple[ErrorCode, FetchSession | None, bool]:
        """The session a request belongs to, and whether its answer lists every partition."""
        epoch = frame.session_epoch
        if epoch <= 0:
            self._sessions.pop(frame.session_id, None)
            if epoch < 0 or self._slots_max <= 0:
                return ErrorCode.NONE, None, True
            return ErrorCode.NONE, self._open(frame, uses_topic_ids), True
        session = self._sessions.get(frame.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None, False
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None, False
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, None, False
        session.epoch = epoch + 1 if epoch < _EPOCH_MAX else 1
        session.update(frame)
        self._sessions.move_to_end(session.session_id)
        return ErrorCode.NONE, session, False

    def _open(self, frame: FetchFrame, uses_topic_ids: bool) -> FetchSession:
        while len(self._sessions) >= self._slots_max:
            self._sessions.popitem(last=False)
        session_id = self._random.randrange(1, _EPOCH_MAX)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, _EPOCH_MAX)
        session = FetchSession(session_id, uses_topic_ids)
        session.update(frame)
        self._sessions[session_id] = session
        return session
