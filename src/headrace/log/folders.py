"""The folders of partitions in one log directory: which there are, and what is renamed or removed.

    DIR/orders-0/                 a partition
    DIR/orders-0.<id>-delete/     one that was deleted and will be removed
    DIR/orders-0.<id>-stray/      one of a topic that is gone, kept for people
    DIR/orders-0.<id>-future/     one that is being copied from another directory (KIP-113)

Owns: these names. Must not know: what is in a folder beyond its id, who may use the directory.
Refusals of the disk are StorageErrors, the caller's to judge.

Invariant: a name that is not listed has no folder. The directory is listed once and the list kept
up from then on: ten thousand partitions without a folder would be ten thousand questions.
"""

import re
from collections.abc import Sequence

from headrace.base.errors import StorageError
from headrace.base.randomness import Random
from headrace.base.storage import Storage
from headrace.log import checkpoints
from headrace.log.checkpoints import TopicPartition

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
NAME_LENGTH_MAX = 255

_DOOMED = re.compile(r".+\.[0-9a-f]{32}-delete\Z")
_FUTURE = re.compile(r"(.+-\d+)\.[0-9a-f]{32}-future\Z")


class Folders:
    def __init__(self, storage: Storage, path: str, rng: Random) -> None:
        self._storage = storage
        self._path = path
        self._rng = rng
        self._names: set[str] | None = None
        """None where the directory could not be listed."""
        self._doomed: list[tuple[int, str]] = []
        self._futures: dict[str, str] = {}
        """By the name that it is to have: the path of a copy that an earlier process left."""

    def list(self) -> None:
        """What there is. Deletions that were not finished are due at once."""
        self._names = set(self._storage.list(self._path))
        for name in sorted(self._names):
            if _DOOMED.match(name):
                self._doomed.append((0, f"{self._path}/{name}"))
            elif match := _FUTURE.match(name):
                self._futures[match[1]] = f"{self._path}/{name}"

    def path_of(self, topic: str, index: int) -> str:
        return f"{self._path}/{topic}-{index}"

    def has(self, topic: str, index: int) -> bool:
        if self._names is not None and f"{topic}-{index}" not in self._names:
            return False
        return self._storage.is_directory(self.path_of(topic, index))

    def note(self, topic: str, index: int) -> None:
        """It was made."""
        if self._names is not None:
            self._names.add(f"{topic}-{index}")

    def topic_id_of(self, topic: str, index: int) -> bytes | None:
        """The id in the folder; None where there is none that can be read."""
        path = f"{self.path_of(topic, index)}/{checkpoints.PARTITION_METADATA}"
        try:
            return checkpoints.read_topic_id(self._storage, path)
        except StorageError:
            return None

    def set_aside(self, topic: str, index: int) -> None:
        path = self.path_of(topic, index)
        self._storage.rename(path, self._renamed(path, STRAY_SUFFIX))
        self._storage.sync_directory(self._path)

    def move_stray(self, topic: str, index: int, topic_id: bytes) -> None:
        """A folder of another topic of this name: that topic is gone, its data is kept aside."""
        stored = self.topic_id_of(topic, index)
        if stored in (None, topic_id) or not any(topic_id):
            return
        assert stored is not None
        if not checkpoints.is_damaged_copy(stored, topic_id):
            self.set_aside(topic, index)

    def left_future(self, topic: str, index: int) -> str | None:
        """The unfinished copy that an earlier process left here: whoever asks goes on with it."""
        return self._futures.pop(f"{topic}-{index}", None)

    def new_future(self, topic: str, index: int) -> str:
        return self._renamed(self.path_of(topic, index), FUTURE_SUFFIX)

    def promote(self, future: str, topic: str, index: int) -> None:
        """The copy is whole: it takes the partition's name, durably."""
        self._storage.rename(future, self.path_of(topic, index))
        self._storage.sync_directory(self._path)
        self.note(topic, index)

    def doom_future(self, future: str) -> None:
        """A copy that nobody goes on with."""
        target = self._renamed(future, DELETE_SUFFIX)
        self._storage.rename(future, target)
        self._doomed.append((0, target))

    def doom_left_futures(self) -> None:
        for future in self._futures.values():
            self.doom_future(future)
        self._futures = {}

    def doom(self, partitions: Sequence[tuple[TopicPartition, int]]) -> None:
        """Rename the folders of these, each to be removed when its time has come."""
        for (topic, index), due_ms in partitions:
            path = self.path_of(topic, index)
            target = self._renamed(path, DELETE_SUFFIX)
            self._storage.rename(path, target)
            self._doomed.append((due_ms, target))
        self._storage.sync_directory(self._path)

    def _renamed(self, path: str, suffix: str) -> str:
        ending = f".{self._rng.randbytes(16).hex()}{suffix}"
        folder, _, name = path.rpartition("/")
        return f"{folder}/{name[: NAME_LENGTH_MAX - len(ending)]}{ending}"

    def sweep(self, now_ms: int) -> int:
        """Remove what was deleted long enough ago; how many."""
        count = 0
        for due_ms, path in self._doomed:
            if due_ms <= now_ms and self._storage.is_directory(path):
                self._storage.remove_directory(path)
                count += 1
        self._doomed = [doomed for doomed in self._doomed if doomed[0] > now_ms]
        return count
