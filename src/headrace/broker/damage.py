"""Partitions that should be here and can't be opened: damaged, or in a directory that is gone.

Owns: their names, by topic name and by topic id, and what the log is told of those missed.
Must not know: why, disks.
"""

from headrace.base.events import EventLog

_NAMES_TOLD_MAX = 10
"""Partitions that one line of the log names; of the others it gives the number."""


class Damage:
    def __init__(self) -> None:
        self._by_id: dict[bytes, set[int]] = {}
        self._by_name: dict[str, set[int]] = {}
        self._names: dict[bytes, str] = {}
        self._missed: list[str] = []

    def add(self, topic: str, topic_id: bytes, index: int) -> None:
        self._by_id.setdefault(topic_id, set()).add(index)
        self._by_name.setdefault(topic, set()).add(index)
        self._names[topic_id] = topic

    def add_missed(self, topic: str, topic_id: bytes, index: int) -> None:
        """It may have been in a directory that is not here."""
        self.add(topic, topic_id, index)
        self._missed.append(f"{topic}-{index}")

    def has(self, topic: str | bytes, index: int) -> bool:
        if isinstance(topic, bytes):
            return index in self._by_id.get(topic, ())
        return index in self._by_name.get(topic, ())

    def all(self) -> list[tuple[bytes, set[int]]]:
        return [(topic_id, set(indexes)) for topic_id, indexes in self._by_id.items()]

    def forget(self, topic_id: bytes) -> list[tuple[str, int]]:
        """The topic is deleted; the partitions of it that were here."""
        name = self._names.pop(topic_id, None)
        if name is None:
            return []
        del self._by_name[name]
        return [(name, index) for index in sorted(self._by_id.pop(topic_id))]

    def forget_one(self, topic_id: bytes, index: int) -> bool:
        """The partition is not to be here any more; True if it was here, and damaged."""
        indexes = self._by_id.get(topic_id, set())
        if index not in indexes:
            return False
        indexes.discard(index)
        self._by_name[self._names[topic_id]].discard(index)
        return True

    def names(self) -> list[str]:
        return [f"{topic}-{index}" for topic, some in self._by_name.items() for index in some]

    def tell(self, log: EventLog) -> None:
        """One line for all that were missed since the last."""
        missed, self._missed = self._missed, []
        if missed:
            log.error(
                "partition_missing",
                count=len(missed),
                partitions=",".join(missed[:_NAMES_TOLD_MAX]),
                reason="a log directory of this node is gone, failed or empty",
            )
