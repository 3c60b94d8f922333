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
JOIN_TIMEOUT_S = 5.0

_Item = Fetched | BaseException | None


class ReadAhead:
    """Iterates over what `fetch` fetches; `release` gives a buffer back for the one after next."""

    def __init__(self, fetch: PartitionFetch) -> None:
        self._fetch = fetch
        self._free: queue.SimpleQueue[ReceiveBuffer | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        for _ in range(BUFFERS):
            self._free.put(ReceiveBuffer(0))
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
        if not self._thread.is_alive():
            self._fetch.close()

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
