"""Who waits until the high watermark is past an offset: acks=all, and the broker's own appends.

Owns: their order, and that each is told exactly once. Must not know: why the watermark moves.

Story of the order: 1. two producers wait, the watermark passes both; 2. the first one's answer
makes somebody write and moves the watermark again; 3. the second is told before anybody who came
later. So who is to be told stands in one queue, and only the outermost call empties it.

Invariants: a promise is settled once; nobody is told before one that waited for a smaller offset.
"""

from collections import deque
from typing import NamedTuple

from headrace.base.promise import Promise
from headrace.wire.kafka.errors import ErrorCode


class _Waiting(NamedTuple):
    offset: int
    deadline_ms: int
    promise: "Promise[ErrorCode]"


class WaitingCommits:
    __slots__ = ("_is_telling", "_to_tell", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        """In order of offsets."""
        self._to_tell: deque[tuple[Promise[ErrorCode], ErrorCode]] = deque()
        self._is_telling = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, deadline_ms: int) -> "Promise[ErrorCode]":
        waiting = self._waiting
        promise: Promise[ErrorCode] = Promise()
        one = _Waiting(offset, deadline_ms, promise)
        if not waiting or waiting[-1].offset <= offset:
            waiting.append(one)
            return promise
        # A batch that was sent again waits for where it lies, not behind those written since.
        place = len(waiting)
        while place and waiting[place - 1].offset > offset:
            place -= 1
        waiting.insert(place, one)
        return promise

    def on_reached(self, high_watermark: int, error: ErrorCode) -> None:
        waiting = self._waiting
        while waiting and waiting[0].offset < high_watermark:
            self._to_tell.append((waiting.popleft().promise, error))
        self._tell()

    def expire(self, now_ms: int) -> None:
        late = [one for one in self._waiting if one.deadline_ms <= now_ms]
        if late:
            self._waiting = deque(one for one in self._waiting if one.deadline_ms > now_ms)
            self._to_tell += ((one.promise, ErrorCode.REQUEST_TIMED_OUT) for one in late)
            self._tell()

    def refuse(self, error: ErrorCode) -> None:
        """All of them."""
        waiting, self._waiting = self._waiting, deque()
        self._to_tell += ((one.promise, error) for one in waiting)
        self._tell()

    def _tell(self) -> None:
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._to_tell:
                promise, error = self._to_tell.popleft()
                promise.resolve(error)
        finally:
            self._is_telling = False
