"""What a DataNode tells the system about its page cache: read ahead, drop behind, write out.

Owns: the seam (`runtime.page_cache` makes the system calls) and when it is called for one read or
one write. Must not know: packets, sockets.
Spec: CachingStrategy, and BlockSender's and BlockReceiver's manageOSCache of Hadoop 3.5.

Advice changes nothing but speed: what the system refuses is nobody's error.
"""

from typing import NamedTuple, Protocol

from headrace.base.storage import File
from headrace.wire.hadoop.protos.data_transfer_pb2 import CachingStrategyProto

_LONG_READ_BYTES = 256 * 1024
"""Shorter reads are random ones: what lies behind them is not what is read next."""
_DROP_READ_BYTES = 1024 * 1024
_BEHIND_WRITES_BYTES = 4 * 1024 * 1024
"""Written out at once: large enough that a call costs nothing, small enough that a sync at the
block's end finds little to do. Between 1 and 8 MiB no difference was to be measured."""
_LAG_BYTES = 8 * 1024 * 1024
"""Written data is dropped so far behind: by then it has usually left for the disk."""


class PageCache(Protocol):
    def will_need(self, file: File, position: int, length: int, /) -> None: ...

    def drop(self, file: File, position: int, length: int, /) -> None: ...

    def write_out(self, file: File, position: int, length: int, /) -> None:
        """Begin to write dirty pages; do not wait for them."""
        ...


class NoPageCache:
    """Where nobody can be advised."""

    def will_need(self, _file: File, _position: int, _length: int, /) -> None:
        return None

    drop = write_out = will_need


class CacheSettings(NamedTuple):
    """`dfs.datanode.readahead.bytes` and its neighbours; a client may ask otherwise."""

    readahead_bytes: int = 0
    drop_behind_reads: bool = False
    drop_behind_writes: bool = False
    sync_behind_writes: bool = False


NO_ADVICE = CacheSettings()


class ReadAdvice:
    """For one read of [start, end)."""

    __slots__ = ("_ahead", "_ahead_to", "_cache", "_dropped_to", "_drops", "_end", "_file")

    def __init__(
        self,
        cache: PageCache,
        settings: CacheSettings,
        asked: CachingStrategyProto | None,
        file: File,
        start: int,
        end: int,
    ) -> None:
        self._cache = cache
        self._file = file
        self._end = end
        self._ahead = settings.readahead_bytes
        self._drops = settings.drop_behind_reads
        if asked is not None and asked.HasField("readahead"):
            self._ahead = max(0, asked.readahead)
        if asked is not None and asked.HasField("dropBehind"):
            self._drops = asked.dropBehind
        if end - start <= _LONG_READ_BYTES:
            self._ahead, self._drops = 0, False
        self._ahead_to = self._dropped_to = start

    def on_read(self, position: int) -> None:
        """The read has come to `position`; all before it has left."""
        if self._ahead and position + self._ahead // 2 >= self._ahead_to < self._end:
            until = min(position + self._ahead, self._end)
            self._cache.will_need(self._file, self._ahead_to, until - self._ahead_to)
            self._ahead_to = until
        if self._drops and position - self._dropped_to >= _DROP_READ_BYTES:
            self._cache.drop(self._file, self._dropped_to, position - self._dropped_to)
            self._dropped_to = position


class WriteAdvice:
    """For one replica that is written from its beginning or from its end on."""

    __slots__ = ("_cache", "_drops", "_file", "_managed_to", "_writes_out")

    def __init__(
        self,
        cache: PageCache,
        settings: CacheSettings,
        asked: CachingStrategyProto | None,
        file: File,
        start: int,
        *,
        will_be_synced: bool = False,
    ) -> None:
        """What is synced at its end is written out from its beginning: the disk works meanwhile,
        and little is left to wait for."""
        self._cache = cache
        self._file = file
        self._drops = settings.drop_behind_writes
        if asked is not None and asked.HasField("dropBehind"):
            self._drops = asked.dropBehind
        self._writes_out = settings.sync_behind_writes or will_be_synced
        self._managed_to = start

    @property
    def is_idle(self) -> bool:
        return not (self._drops or self._writes_out)

    def on_written(self, end: int) -> None:
        begun = self._managed_to
        if end - begun < _BEHIND_WRITES_BYTES:
            return
        # Only what is written out can be dropped: whoever drops must begin that as well.
        self._cache.write_out(self._file, begun, end - begun)
        if self._drops and begun > _LAG_BYTES:
            self._cache.drop(self._file, 0, begun - _LAG_BYTES)
        self._managed_to = end
