"""Which brokers are heard of: soft state of the active controller, never in the log.

Owns: when each broker was last heard of, how far it had read the metadata log then, and since
which offset it waits to stop. Must not know: timers, requests, what a fence does.
Spec: Kafka's BrokerHeartbeatManager. Time is monotonic and an argument.

A controller that becomes active knows of nobody: every registered broker gets a fresh session
(`grant`), and a whole time-out to send its first heartbeat. Such a session holds off the fence
but proves nothing: only a heartbeat does (`is_alive`).

Invariants: a session ends `timeout_ms` after its last heartbeat or grant, unless time in which
the controller itself did not run is given back (`extend`), which happens once in a silence.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Session:
    last_heard_ms: int
    is_granted: bool
    """Not heard of since this controller became active."""
    metadata_offset: int = -1
    shutdown_offset: int | None = None
    """What every other broker must have read before this one may stop."""
    is_extended: bool = False
    """Time was given back since it was last heard of."""


class BrokerSessions:
    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, Session] = {}

    def __contains__(self, broker_id: int) -> bool:
        return broker_id in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    # What happens.

    def clear(self) -> None:
        self._sessions.clear()

    def grant(self, broker_ids: Iterable[int], now_ms: int) -> None:
        """A fresh session, as if each had just been heard of."""
        for broker_id in broker_ids:
            self._sessions[broker_id] = Session(now_ms, is_granted=True)

    def touch(self, broker_id: int, metadata_offset: int, now_ms: int) -> None:
        """A heartbeat has come."""
        session = self._sessions.get(broker_id)
        if session is None:
            session = self._sessions[broker_id] = Session(now_ms, is_granted=False)
        session.last_heard_ms = now_ms
        session.is_granted = False
        session.is_extended = False
        session.metadata_offset = metadata_offset

    def await_readers(self, broker_id: int, offset: int, *, moved: bool) -> None:
        """The broker may stop once the others have read up to `offset`; later moves raise it."""
        session = self._sessions.get(broker_id)
        if session is not None and (moved or session.shutdown_offset is None):
            session.shutdown_offset = offset

    def remove(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def extend(self, delta_ms: int) -> None:
        """Nobody could be heard for so long, and nobody is to blame. Once in a silence: a
        controller that is late at every look must still miss who is gone."""
        for session in self._sessions.values():
            if not session.is_extended:
                session.last_heard_ms += delta_ms
                session.is_extended = True

    # What is so.

    def is_alive(self, broker_id: int, now_ms: int) -> bool:
        """Has it sent a heartbeat, and recently enough?"""
        session = self._sessions.get(broker_id)
        if session is None or session.is_granted:
            return False
        return now_ms - session.last_heard_ms < self.timeout_ms

    def expired(self, now_ms: int) -> list[int]:
        """Whose time is over, in order of their ids."""
        return sorted(
            broker_id
            for broker_id, session in self._sessions.items()
            if now_ms - session.last_heard_ms >= self.timeout_ms
        )

    def next_expiry_ms(self) -> int | None:
        """When the first session ends, if nothing more is heard."""
        if not self._sessions:
            return None
        return min(each.last_heard_ms for each in self._sessions.values()) + self.timeout_ms

    def shutdown_offset(self, broker_id: int) -> int | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.shutdown_offset

    def metadata_offset(self, broker_id: int) -> int:
        """How far the broker had read at its last heartbeat; -1 if it sent none yet."""
        session = self._sessions.get(broker_id)
        return -1 if session is None else session.metadata_offset
