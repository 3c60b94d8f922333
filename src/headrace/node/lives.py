"""Which processes have used the log directories since the machine started.

Owns: one small file in each directory. Must not know: what a life was like.

A process that ends without a word (kill -9, a crash) loses nothing: what it wrote is in the
system's page cache. Only a machine that stops loses that. The controller can't tell the two apart
and takes any stop without a mark for the worse one: whoever comes back may not lead before it is in
sync again (KIP-966). The id that the system gets at each start can: if the process that is
registered was here since then, all that it wrote still is.

    1f3c…                 the system's id of this start
    88aa…                 incarnations of this node since then, the newest last

It need not be synced: it says something only as long as the page cache lives. An incarnation is
noted before it is registered, so that none can be registered and unknown.

A log that lacks something all the same was damaged, and the page cache is no proof any more: then
all lives before this one are forgotten, on disk too, before recovery changes a byte. Else:
1. the log of a killed process is damaged; 2. the next one cuts the damage off, and ends before it
is registered; 3. the one after finds a whole log, and a life that it knows.

A kill in the midst of a write tears a tail too, which nobody had been told of. It looks the same,
and counts as damage: that costs a place that others have as well, the other mistake records.
"""

from collections.abc import Sequence

from headrace.base.errors import StorageError
from headrace.base.storage import Storage

FILE = ".lives"
LIVES_MAX = 64


class Lives:
    def __init__(self, storage: Storage, paths: Sequence[str]) -> None:
        self._storage = storage
        self._paths = paths
        self._boot_id = storage.boot_id()
        self.are_forgotten = False

    def note(self, incarnation_id: bytes) -> None:
        """Before it is registered."""
        if not self._boot_id:
            return
        for path in self._paths:
            lives = [*self._read(path), incarnation_id.hex()][-LIVES_MAX:]
            content = "\n".join([self._boot_id, *lives, ""]).encode()
            try:
                self._storage.replace_file(f"{path}/{FILE}", content, sync=False)
            except StorageError:
                continue  # unknown there: the next start takes it for an unclean stop

    def forget(self) -> None:
        """What was written in lives before this one may be lost."""
        if self.are_forgotten:
            return
        self.are_forgotten = True
        for path in self._paths:
            try:
                if self._storage.exists(f"{path}/{FILE}"):
                    self._storage.remove(f"{path}/{FILE}")
            except StorageError:
                continue  # a directory that fails is registered no more

    def knows(self, incarnation_id: bytes) -> bool:
        """Whether that process ran here since the machine started, with all directories."""
        return all(incarnation_id.hex() in self._read(path) for path in self._paths)

    def _read(self, path: str) -> list[str]:
        try:
            if not self._storage.exists(f"{path}/{FILE}"):
                return []
            lines = self._storage.read_file(f"{path}/{FILE}").decode("ascii", "replace").split()
        except StorageError:
            return []
        return lines[1:] if lines and lines[0] == self._boot_id and self._boot_id else []
