"""Fetching ahead of decoding: the next buffer is received while the last one is decoded.

Owns: a thread, two buffers that go round between it and the reader, and the end of both. Must not
know: batches, records. An exception of the thread is raised where the reader waits.
"""

import queue
import threading
from collections.abc import Iterator
from types import TracebackType

from headrace.client.raw_fetch import ReceiveBuffer
from headrace.pipeline.partition_fetch import CancelledFetch, Fetched, PartitionFetch

BUFFERS = 2
SPARE_BUFFERS_MAX = 4
SPARE_BYTES_MAX = 64 * 1024 * 1024
JOIN_TIMEOUT_S = 5.0

# Buffers of readers that have ended, for the next ones: a Spark worker reads range after range,
# and memory that was written before costs no page faults. Appending and popping are atomic.
_spare: list[ReceiveBuffer] = []

_Item = Fetched | BaseException | None


class ReadAhead:
    """Iterates over what `fetch` fetches; `release` gives a buffer back for the one after next."""

    def __init__(self, fetch: PartitionFetch) -> None:
        self._fetch = fetch
        self._free: queue.SimpleQueue[ReceiveBuffer | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._buffers = [_spare.pop() if _spare else ReceiveBuffer(0) for _ in range(BUFFERS)]
        for buffer in self._buffers:
            self._free.put(buffer)
        self._thread = threading.Thread(target=self._run, name="headrace-fetch", daemon=True)

    def __enter__(self) -> "ReadAhead":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._fetch.interrupt()
        self._free.put(None)
        self._thread.join(JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            return  # it still writes into its buffer, and ends by its own timeout
        self._fetch.close()
        for buffer in self._buffers:
            if len(_spare) < SPARE_BUFFERS_MAX and buffer.size <= SPARE_BYTES_MAX:
                _spare.append(buffer)

    def __iter__(self) -> Iterator[Fetched]:
        while True:
            item = self._ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def release(self, fetched: Fetched) -> None:
        self._free.put(fetched.buffer)

    def _run(self) -> None:
        try:
            while not self._fetch.is_done:
                buffer = self._free.get()
                if buffer is None:
                    return
                fetched = self._fetch.next_into(buffer)
                if fetched is None:
                    break
                self._ready.put(fetched)
            self._ready.put(None)
        except CancelledFetch:
            self._ready.put(None)
        except BaseException as error:
            self._ready.put(error)
