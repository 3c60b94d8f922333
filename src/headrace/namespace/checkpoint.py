"""Checkpoints on disk: `fsimage_OFFSET` files beside the log, and how a start and a build use them.

Owns: names, order, what may be deleted. A checkpoint is built from the one before it plus the
edits behind that, by a child process, so that the NameNode answers meanwhile; the child reads the
log's files and changes none of them. Must not know: who starts the child.

Invariants (D13): a checkpoint is whole before it has its name; it holds durable edits only; two are
kept, and the edits behind the older one, so that a damaged one is no loss; a gap between
checkpoint and log is refused.
"""

import gc
from collections.abc import Callable

from headrace.base.errors import CorruptionError, DiskFullError, StorageError
from headrace.base.limits import MIB
from headrace.base.storage import Storage
from headrace.log.partition_log import PartitionLog
from headrace.namespace.filesystem import Namespace
from headrace.namespace.image import ImageError, read_image, write_image
from headrace.namespace.journal import decode_edit, log_path
from headrace.namespace.settings import NamespaceSettings
from headrace.wire.kafka.records import is_crc_valid, read_batches, read_records

_PREFIX = "fsimage_"
_UNFINISHED = ".tmp"
_KEPT = 2
_READ_BYTES = 4 * MIB
_BATCH_BYTES_MAX = 64 * MIB


def image_path(directory: str, offset: int) -> str:
    return f"{directory}/{_PREFIX}{offset:020d}"


def image_offsets(storage: Storage, directory: str) -> list[int]:
    """Of the checkpoints that are there, newest first."""
    names = [
        name.removeprefix(_PREFIX) for name in storage.list(directory) if name.startswith(_PREFIX)
    ]
    return sorted((int(name) for name in names if name.isdigit()), reverse=True)


# -- start --------------------------------------------------------------------------------------


def load_newest(
    storage: Storage,
    directory: str,
    settings: NamespaceSettings,
    on_damaged: Callable[[str, str], None],
) -> Namespace:
    """The newest checkpoint that is whole; an empty namespace if there is none.

    `on_damaged(path, reason)` hears of each that is not.
    """
    offsets = image_offsets(storage, directory)
    for offset in offsets:
        path = image_path(directory, offset)
        try:
            return _load(storage, path, settings)
        except ImageError as error:
            on_damaged(path, str(error))
    if offsets:
        raise CorruptionError(
            image_path(directory, offsets[0]), 0, "no checkpoint in this folder is whole"
        )
    return Namespace(settings)


def _load(storage: Storage, path: str, settings: NamespaceSettings) -> Namespace:
    # Millions of objects are made and none of them is garbage: looking for some is most of the
    # time that a load would take.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return read_image(memoryview(storage.read_file(path)), settings)
    finally:
        if was_enabled:
            gc.enable()


def check_gap(log: PartitionLog, ns: Namespace) -> None:
    """Checkpoint and log must meet."""
    if log.log_start_offset > ns.last_offset + 1:
        raise CorruptionError(
            log.path, 0, f"the edits {ns.last_offset + 1} to {log.log_start_offset - 1} are missing"
        )
    if log.log_end_offset < ns.last_offset + 1:
        raise CorruptionError(
            log.path,
            0,
            f"the log ends at {log.log_end_offset}, before the checkpoint of {ns.last_offset}",
        )


# -- building -----------------------------------------------------------------------------------


def build(storage: Storage, directory: str, end_offset: int, settings: NamespaceSettings) -> int:
    """A new checkpoint of all edits below `end_offset`, which are durable; its offset."""
    damaged: list[str] = []
    ns = load_newest(storage, directory, settings, lambda path, _: damaged.append(path))
    gc.disable()
    try:
        replay_files(storage, log_path(directory), ns, end_offset)
    finally:
        gc.enable()
    save(storage, directory, ns)
    return ns.last_offset


def save(storage: Storage, directory: str, ns: Namespace) -> str:
    """Written beside, synced, renamed: a name means a whole file. Of the room that is reserved for
    edits it takes no more than half."""
    kept_bytes = ns.settings.resource_reserved_bytes // 2
    path = image_path(directory, ns.last_offset)
    temporary = f"{path}{_UNFINISHED}"
    _remove_unfinished(storage, directory)
    file = storage.open(temporary, create=True)
    try:
        for piece in write_image(ns):
            if kept_bytes:
                _check_room(storage, directory, kept_bytes)
            file.write([piece])
        storage.sync_now(file)
    except StorageError:
        storage.remove(temporary)  # on a full disk it holds the last room there was
        raise
    finally:
        file.close()
    storage.rename(temporary, path)
    storage.sync_directory(directory)
    return path


def _check_room(storage: Storage, directory: str, kept_bytes: int) -> None:
    free_bytes = storage.free_bytes(directory)
    if free_bytes < kept_bytes:
        raise DiskFullError(directory, f"{free_bytes} bytes are left, which edits may want")


def _remove_unfinished(storage: Storage, directory: str) -> None:
    """Of processes that were killed while they built."""
    for name in storage.list(directory):
        if name.startswith(_PREFIX) and name.endswith(_UNFINISHED):
            storage.remove(f"{directory}/{name}")


def replay_files(storage: Storage, path: str, ns: Namespace, end_offset: int) -> None:
    """Replay from the segments' files, read only: the NameNode goes on writing them."""
    names = [name for name in storage.list(path) if name.endswith(".log")]
    bases = sorted(int(name.removesuffix(".log")) for name in names)
    for base, following in zip(bases, [*bases[1:], end_offset], strict=True):
        if following <= ns.last_offset + 1 or base >= end_offset:
            continue
        _replay_segment(storage, f"{path}/{base:020d}.log", ns, end_offset)
    if ns.last_offset + 1 < end_offset:
        raise CorruptionError(path, 0, f"edits end at {ns.last_offset}, before {end_offset}")


def _replay_segment(storage: Storage, path: str, ns: Namespace, end_offset: int) -> None:
    file = storage.open(path, read_only=True)
    try:
        position, wanted = 0, _READ_BYTES
        while True:
            data = file.read(position, wanted)
            taken = 0
            for header, batch in read_batches(data):
                if header.base_offset >= end_offset:
                    return
                taken += header.size_bytes
                if header.last_offset <= ns.last_offset:
                    continue
                if not is_crc_valid(batch):
                    raise CorruptionError(path, position, "a batch of edits fails its checksum")
                ns.last_offset = header.last_offset
                if not header.is_control:
                    for record in read_records(batch):
                        ns.replay(decode_edit(record.value or b""))
                    ns.completed.clear()
                    ns.reopened.clear()
                    ns.freed.clear()
                    ns.to_review.clear()
                if header.next_offset >= end_offset:
                    return  # perhaps zeros follow, see `File.fill_ahead`
            if taken == 0:
                if len(data) < wanted or wanted >= _BATCH_BYTES_MAX:
                    return
                wanted *= 2
            position += taken
    finally:
        file.close()


# -- after --------------------------------------------------------------------------------------


def retire(storage: Storage, directory: str, log: PartitionLog, now_ms: int) -> None:
    """Keep two checkpoints, and the edits behind the older of them."""
    offsets = image_offsets(storage, directory)
    for offset in offsets[_KEPT:]:
        storage.remove(image_path(directory, offset))
    if len(offsets) >= _KEPT:
        oldest = offsets[_KEPT - 1]
        if log.log_start_offset <= oldest < log.log_end_offset:
            log.delete_records(oldest + 1)
            log.retain(now_ms, log.log_end_offset)
            log.sweep(now_ms)
