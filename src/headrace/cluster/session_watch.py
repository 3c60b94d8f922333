"""The timer behind the sessions: who is not heard of in time is fenced.

Owns: `SessionWatch`, the sessions of one reign and one timer. Must not know: what a fence does.

A controller that was stopped or busy finds its timer late, and heartbeats unread in its sockets:
the time in which it could hear nobody is given back to everybody, with one interval to catch up.

Invariants: while it watches, every session has a timer due no later than its end (or the shortest
interval between two looks); after `stop` no timer is pending and nobody is fenced.
"""

from collections.abc import Callable, Iterable

from headrace.base.clock import Clock, Timer, Timers
from headrace.cluster.sessions import BrokerSessions

LOOK_INTERVAL_MS_MIN = 50


class SessionWatch:
    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        fence: Callable[[int], None],
        *,
        timeout_ms: int,
        heartbeat_interval_ms: int,
    ) -> None:
        """`fence` is called with the id of a broker whose session has ended, and is gone."""
        self.sessions = BrokerSessions(timeout_ms)
        self._clock = clock
        self._timers = timers
        self._fence = fence
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._timer: Timer | None = None
        self._due_ms = 0
        self._is_watching = False

    def start(self, broker_ids: Iterable[int]) -> None:
        """A fresh session for each."""
        self._is_watching = True
        self.sessions.clear()
        self.grant(broker_ids)

    def stop(self) -> None:
        self._is_watching = False
        self.sessions.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def grant(self, broker_ids: Iterable[int]) -> None:
        self.sessions.grant(broker_ids, self._clock.monotonic_ms())
        self._schedule()

    def touch(self, broker_id: int, metadata_offset: int) -> None:
        self.sessions.touch(broker_id, metadata_offset, self._clock.monotonic_ms())
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_watching or self._timer is not None:
            return
        end_ms = self.sessions.next_expiry_ms()
        if end_ms is None:
            return
        now_ms = self._clock.monotonic_ms()
        delay_ms = max(end_ms - now_ms, LOOK_INTERVAL_MS_MIN)
        self._due_ms = now_ms + delay_ms
        self._timer = self._timers.call_later(delay_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        late_ms = now_ms - self._due_ms
        if late_ms > self._heartbeat_interval_ms:
            self.sessions.extend(late_ms + self._heartbeat_interval_ms)
        for broker_id in self.sessions.expired(now_ms):
            self.sessions.remove(broker_id)
            self._fence(broker_id)
        self._schedule()
