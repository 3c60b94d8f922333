"""One data transfer connection: requests in, each handed to what serves it.

Owns: where one operation ends and the next begins, and how refusals are told.
Must not know: sockets; how blocks are written or read. Spec: DataXceiver of Hadoop 3.5.

Invariants: at most one operation at a time; a connection whose operation failed half-way is
closed, one that was refused before it began gets a status and a sentence.
"""

from collections.abc import Callable
from typing import Protocol

from headrace.base.errors import CorruptionError, ProtocolError, StorageError
from headrace.datanode.context import Context
from headrace.datanode.errors import Refusal
from headrace.datanode.streams import Stream
from headrace.wire.hadoop.protos.data_transfer_pb2 import Status
from headrace.wire.hadoop.transfer import (
    HEAD_BYTES,
    Op,
    encode_status,
    parse_delimited,
    parse_head,
)


class Activity(Protocol):
    """An operation that goes on after its request."""

    wanted_bytes: int

    @property
    def idle_timeout_ms(self) -> int: ...

    def on_data(self, view: memoryview) -> int: ...

    def on_drained(self) -> None: ...

    def on_end(self) -> bool: ...

    def on_closed(self, reason: str) -> None: ...


Start = Callable[["TransferSession", memoryview], None]
"""Serve one request's message; may set the session's activity."""


class TransferSession:
    def __init__(self, context: Context, operations: dict[Op, Start]) -> None:
        self.context = context
        self._operations = operations
        self._stream: Stream | None = None
        self._activity: Activity | None = None
        self._served = 0
        self.refuses_silently = False
        """What can't be served ends the connection without an answer."""

    @property
    def stream(self) -> Stream:
        assert self._stream is not None, "a session begins with on_connected"
        return self._stream

    @property
    def wanted_bytes(self) -> int:
        return self._activity.wanted_bytes if self._activity is not None else 0

    @property
    def idle_timeout_ms(self) -> int:
        settings = self.context.settings
        if self._activity is not None:
            return self._activity.idle_timeout_ms
        return settings.keepalive_ms if self._served else settings.socket_timeout_ms

    # -- StreamHandler -----------------------------------------------------------------

    def on_connected(self, stream: Stream) -> None:
        self._stream = stream

    def on_data(self, view: memoryview) -> int:
        consumed = 0
        while consumed < len(view):
            count = self._take(view[consumed:])
            if count == 0:
                break
            consumed += count
            if self.stream.closed:
                break
        return consumed

    def _take(self, view: memoryview) -> int:
        if self._activity is not None:
            return self._activity.on_data(view)
        op = parse_head(view)
        if op is None:
            return 0
        found = parse_delimited(view, HEAD_BYTES)
        if found is None:
            return 0
        message, end = found
        self._start(op, message)
        return end

    def _start(self, op: Op, message: memoryview) -> None:
        start = self._operations.get(op)
        if start is None:
            raise ProtocolError(f"operation {op.name} is not served")
        self._served += 1
        self.refuses_silently = False
        if self.context.active >= self.context.settings.transfers_max:
            self.refuses_silently = op is Op.WRITE_BLOCK
            self.refuse(Refusal("too many transfers at once"))
            return
        try:
            start(self, message)
        except Refusal as refusal:
            self.refuse(refusal)
        except CorruptionError as error:
            self.context.log.warning("corrupt_replica", path=error.path, reason=error.reason)
            self.refuse(Refusal(str(error)))
        except StorageError as error:
            self.context.log.error("storage_failed", path=error.path, error=error)
            self.refuse(Refusal(str(error)))

    def on_drained(self) -> None:
        if self._activity is not None:
            self._activity.on_drained()

    def on_end(self) -> bool:
        return self._activity is not None and self._activity.on_end()

    def on_closed(self, reason: str) -> None:
        activity = self._activity
        if activity is not None:
            self.end_activity()
            activity.on_closed(reason)

    # -- for operations ----------------------------------------------------------------

    def begin_activity(self, activity: Activity) -> None:
        assert self._activity is None, "one operation at a time"
        self._activity = activity
        self.context.active += 1

    def end_activity(self) -> None:
        if self._activity is not None:
            self._activity = None
            self.context.active -= 1

    def refuse(self, refusal: Refusal, first_bad_link: str | None = None) -> None:
        """Say why not, and close: the peer may already be sending what we don't want."""
        self.context.counters.refusals += 1
        if self.refuses_silently and first_bad_link is None:
            # Nobody else tells.
            self.context.log.info("refused", peer=self.stream.peer, reason=refusal)
        else:
            self.context.log.debug("refused", peer=self.stream.peer, reason=refusal)
            status: Status = refusal.status
            self.stream.send([encode_status(status, refusal.message, first_bad_link)])
        self.end_activity()
        self.stream.close("refused", after_sending=True)
