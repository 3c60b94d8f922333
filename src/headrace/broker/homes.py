"""Which log directory a partition lives in, and which directories of this node are gone.

Owns: the directories, who is in which, the choice for a partition that is in none.
Must not know: what a partition is doing, requests, metadata records.

A partition without a folder is one of two things: it was never used, or its folder was in a
directory that is not here (a disk that is not mounted). Served as empty, the second would lose
its data without a word. What is known to tell them apart:

1. Nothing is lost: every directory that this node is known to have is here. Then a partition
   that no directory has was never used.
2. A directory is lost, and the partition's record names its directory (KIP-858): if that one is
   here the partition was never used, if it is not the partition is missed.
3. A directory is lost and the record does not say (it is unassigned until somebody tells the
   controller): it may have been there. It is missed: offline is safe, empty is not.

So that rule 3 never hits what was made after the loss, partitions that are new while a
directory is lost get their folder at once instead of at their first use.

Which directories a node has is remembered in each of them, and in its registration. The second
knows what the first can't when all were lost; the first knows what the second can't: the
controller forgets a directory that failed (it is no longer to be led from), and history may come
in pieces, the last registration last.

Invariants: every partition is in one directory; a lost directory is forgotten only when the
whole history was followed and no partition is missed.
"""

from collections.abc import Iterable, Sequence

from headrace.broker.partition import Partition
from headrace.cluster.registrations import DIRECTORY_UNASSIGNED
from headrace.log.directory import LogDirectory


class Homes:
    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.directories = list(directories)
        self._homes: dict[Partition, LogDirectory] = {}
        self._inhabitants: dict[str, dict[Partition, None]] = {
            directory.path: {} for directory in self.directories
        }
        self._has_missed = False
        self.cordoned: frozenset[str] = frozenset()
        """Directories that get no new partition while another can take it."""
        self.lost: set[bytes] = set()
        """Directories that this node had and that are not here."""
        for directory in self._identified():
            self._add_lost(directory.known_directories)
        self._remember()

    def on_registered(self, log_dirs: Iterable[bytes]) -> None:
        """What this node has registered, as the committed metadata tells."""
        self._add_lost(log_dirs)

    def _add_lost(self, directory_ids: Iterable[bytes]) -> None:
        self.lost |= set(directory_ids) - set(self.directory_ids)

    def on_caught_up(self) -> None:
        """The whole history was followed: what nobody missed is not lost but given up."""
        if not self._has_missed:
            self.lost = set()
        self._remember()

    def _remember(self) -> None:
        """In each directory, before anything is made in another that it would not know of."""
        for directory in self._identified():
            directory.remember({*self.directory_ids, *self.lost})

    @property
    def directory_ids(self) -> list[bytes]:
        return [directory.directory_id for directory in self._identified()]

    @property
    def are_several(self) -> bool:
        return len(self.directories) > 1

    def _identified(self) -> list[LogDirectory]:
        """Without those whose id could not be read."""
        return [d for d in self.directories if d.directory_id != DIRECTORY_UNASSIGNED]

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
        if own:
            # Of two that are its own a move had been in its last step: they hold the same.
            for directory in found:
                if directory is not own[0]:
                    directory.set_aside(topic, index)
        return (own or found)[0]

    def may_be_lost(self, assigned: bytes) -> bool:
        """True if a partition without a folder, assigned so, may have had one that is gone."""
        if not self.lost or assigned in self.directory_ids:
            return False
        self._has_missed = True
        return True

    def at(self, path: str) -> LogDirectory | None:
        wanted = path.rstrip("/")
        return next((d for d in self.directories if d.path.rstrip("/") == wanted), None)

    def choose(self, assigned: bytes = DIRECTORY_UNASSIGNED) -> LogDirectory:
        """For a new partition: where it is assigned, else in service with the fewest."""
        for directory in self._identified():
            if directory.directory_id == assigned:
                return directory
        in_service = [d for d in self.directories if d.failure is None] or self.directories
        in_service = [d for d in in_service if d.path not in self.cordoned] or in_service
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

    def failed(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.failure is not None]
