"""The journal of the namespace: one log, `__namespace-0`, and the host that commits to it.

Owns: where the log lives, how records are encoded, and how a start finds its place: the newest
checkpoint, then the edits behind it. This is the only file that knows what the host is made of.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from headrace.base.clock import Clock
from headrace.base.errors import CorruptionError
from headrace.base.limits import MIB
from headrace.base.promise import Promise
from headrace.base.storage import Storage
from headrace.log import checkpoints
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.namespace import refusals
from headrace.namespace.filesystem import Namespace
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.quorum.sole_host import SoleHost
from headrace.quorum.state_machine import HostOverloaded, RecordCodec
from headrace.wire.kafka.records import is_crc_valid, read_batches

NAMESPACE_TOPIC = "__namespace"
NAMESPACE_TOPIC_ID = bytes(15) + b"\x02"


def encode_edit(edit: Edit) -> bytes:
    return edit.SerializeToString()


def decode_edit(data: bytes) -> Edit:
    """CorruptionError for bytes that no version of ours wrote, whatever their checksum says."""
    try:
        edit = Edit.FromString(data)
    except DecodeError as error:
        raise CorruptionError(NAMESPACE_TOPIC, 0, f"not an edit: {error}") from error
    if edit.WhichOneof("op") is None:
        raise CorruptionError(NAMESPACE_TOPIC, 0, "an edit of a kind that is unknown here")
    return edit


EDIT_CODEC = RecordCodec(encode_edit, decode_edit)
_LOAD_BYTES = MIB
_SEGMENT_BYTES = 64 * MIB
"""Small enough that a checkpoint lets old edits go."""

T = TypeVar("T")


def log_path(directory: str) -> str:
    return f"{directory}/{NAMESPACE_TOPIC}-0"


def open_log(storage: Storage, directory: str, clock: Clock, files: FileBudget) -> PartitionLog:
    """Open or create it, scanned whole: a torn tail is cut, damage before it is told (D13)."""
    path = log_path(directory)
    storage.make_directory(path)
    metadata = f"{path}/{checkpoints.PARTITION_METADATA}"
    if not storage.exists(metadata):
        checkpoints.write_topic_id(storage, metadata, NAMESPACE_TOPIC_ID, sync=True)
    log = PartitionLog.open(
        storage,
        path,
        NAMESPACE_TOPIC,
        0,
        LogConfig(segment_bytes=_SEGMENT_BYTES, retention_ms=-1, retention_bytes=-1, delete=False),
        clock,
        topic_id=NAMESPACE_TOPIC_ID,
        files=files,
    )
    storage.sync_directory(directory)
    return log


class _NamespaceHost(SoleHost[Namespace]):
    """Replays from where the state already is, and keeps no history: there may be millions."""

    def _replay_log(self) -> list[Any]:
        log = self.log
        offset = max(log.log_start_offset, self.state.last_offset + 1)
        for _ in replay_steps(log, offset, self._replay_batch):
            pass
        return []


def replay_steps(
    log: PartitionLog, offset: int, on_batch: Callable[[Any, memoryview], object]
) -> Any:
    """Read batches from `offset` to the end; yields between reads."""
    while offset < log.log_end_offset:
        region = log.read(offset, _LOAD_BYTES, log.log_end_offset).region
        assert region is not None, "an offset below the end is readable"
        data = region.file.read(region.position, region.length)
        position = region.position
        for header, batch in read_batches(data):
            if not is_crc_valid(batch):
                reason = "a batch of edits fails its checksum"
                raise CorruptionError(region.file.path, position, reason)
            if header.last_offset >= offset:
                on_batch(header, batch)
            position += header.size_bytes
            offset = header.next_offset
        yield


class Journal:
    """Decisions in, durable answers out."""

    def __init__(
        self,
        log: PartitionLog,
        state: Namespace,
        clock: Clock,
        *,
        on_committed: Callable[[int], None],
        on_fatal: Callable[[BaseException], None],
        node_id: int = 1,
    ) -> None:
        def committed(records: Sequence[Edit], _last_offset: int) -> None:
            on_committed(len(records))

        self._host = _NamespaceHost(
            log, state, EDIT_CODEC, clock, node_id, on_committed=committed, on_fatal=on_fatal
        )

    def load(self) -> None:
        self._host.load()

    @property
    def state(self) -> Namespace:
        return self._host.state

    @property
    def log(self) -> PartitionLog:
        return self._host.log

    @property
    def high_watermark(self) -> int:
        return self._host.high_watermark

    @property
    def failure(self) -> BaseException | None:
        return self._host.failure

    def submit(
        self, decide: Callable[[Namespace], tuple[Sequence[Edit], T]], *, hold: bool = False
    ) -> Promise[T]:
        promise = self._host.submit(decide, hold=hold)
        if isinstance(promise.error, HostOverloaded):
            busy: Promise[T] = Promise()
            busy.reject(refusals.retriable(str(promise.error)))
            return busy
        return promise
