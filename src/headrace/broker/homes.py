"""Which log directory a partition lives in, and which directories of this node are gone.

Owns: the directories, who is in which, the choice for a partition that is in none.
Must not know: what a partition is doing, requests, metadata records.

A partition without a folder is one of two things: it was never used, or its folder was in a
directory that is not here (a disk that is not mounted). Served as empty, the second would lose
its data without a word. What is known to tell them apart:

1. Nothing is lost: every directory that this node registered last is here. Then a partition that
   no directory has was never used.
2. A directory is lost, and the partition's record names its directory (KIP-858): if that one is
   here the partition was never used, if that one is lost the partition is missed.
3. A directory is lost and the record does not say (it is unassigned until somebody tells the
   controller): it may have been there. It is missed: offline is safe, empty is not.

So that rule 3 never hits what was made after the loss, partitions that are new while a
directory is lost get their folder at once instead of at their first use.

Invariants: every partition is in one directory; a lost directory is forgotten only when no
partition is missed.
"""

from collections.abc import Iterable, Sequence

from headrace.base.ids import NO_TOPIC_ID
from headrace.broker.partition import Partition
from headrace.log.directory import LogDirectory

UNASSIGNED = NO_TOPIC_ID
"""A partition's directory that nobody has told yet; Kafka writes it as the zero id."""


class Homes:
    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.directories = list(directories)
        self.lost: set[bytes] = set()
        """Directories of this node's last registration that are not here."""
        self._missed: set[bytes] = set()
        """Of these, the ones that a partition may have been in: they are registered again."""
        self._homes: dict[Partition, LogDirectory] = {}
        self._inhabitants: dict[str, dict[Partition, None]] = {
            directory.path: {} for directory in self.directories
        }

    def on_registered(self, log_dirs: Iterable[bytes]) -> None:
        """What this node has registered, as the committed metadata tells."""
        self.lost = set(log_dirs) - {directory.directory_id for directory in self.directories}

    def registered_ids(self) -> list[bytes]:
        """What to register: the directories there are, and those whose partitions are missed."""
        return [d.directory_id for d in self._identified()] + sorted(self._missed)

    def _identified(self) -> list[LogDirectory]:
        """Without those whose name could not be read."""
        return [d for d in self.directories if d.directory_id != UNASSIGNED]

    # -- finding and choosing ----------------------------------------------------------

    def holding(self, topic: str, index: int, topic_id: bytes) -> LogDirectory | None:
        """The directory that has the partition's folder, of several the one that has its id.

        Story of the others: 1. the disk fails while a folder is being made, before it has its
        id; 2. the topic is deleted, and the failed disk keeps the folder; 3. the topic is made
        anew, its folder in another directory; 4. a restart finds both.
        """
        found = [d for d in self.directories if d.has_partition(topic, index)]
        if len(found) < 2:
            return found[0] if found else None
        own = [d for d in found if d.topic_id_of(topic, index) == topic_id]
        if len(own) == 1:
            for directory in found:
                if directory is not own[0]:
                    directory.set_aside(topic, index)
        return (own or found)[0]

    def may_be_lost(self, assigned: bytes) -> bool:
        """True if a partition without a folder, assigned so, may have had one that is gone."""
        if not self.lost or any(d.directory_id == assigned for d in self._identified()):
            return False
        self._missed |= self.lost
        return True

    def choose(self, assigned: bytes = UNASSIGNED) -> LogDirectory:
        """For a new partition: where it is assigned, else in service with the fewest."""
        for directory in self._identified():
            if directory.directory_id == assigned:
                return directory
        in_service = [d for d in self.directories if d.failure is None] or self.directories
        return min(in_service, key=lambda directory: len(self._inhabitants[directory.path]))

    # -- who lives where ---------------------------------------------------------------

    def settle(self, partition: Partition, directory: LogDirectory) -> None:
        self.leave(partition)
        self._homes[partition] = directory
        self._inhabitants[directory.path][partition] = None

    def leave(self, partition: Partition) -> LogDirectory | None:
        directory = self._homes.pop(partition, None)
        if directory is not None:
            del self._inhabitants[directory.path][partition]
        return directory

    def of(self, partition: Partition) -> LogDirectory:
        return self._homes[partition]

    def in_directory(self, path: str) -> list[Partition]:
        return list(self._inhabitants[path])

    def failed_paths(self) -> list[str]:
        return [d.path for d in self.directories if d.failure is not None]
