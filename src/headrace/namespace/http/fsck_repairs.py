"""What `hdfs fsck -move` and `-delete` do with files of which blocks are lost.

Owns: the order (a copy of what is left goes to /lost+found, then the file goes), and that only a
file is touched which is damaged at that very moment: a DataNode may have come back since the walk.
Must not know: how bytes are copied; who runs the process brings a `Salvage`.
Spec: NamenodeFsck. There a file goes even if its remains could not be copied; here it stays.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from headrace.base.promise import Promise
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.caller import Caller
from headrace.namespace.datanodes import StorageInfo
from headrace.namespace.inodes import FileInode
from headrace.namespace.namenode import NameNode
from headrace.namespace.ops import delete
from headrace.namespace.requests import Delete
from headrace.wire.hadoop.exceptions import RemoteError

LOST_AND_FOUND = "/lost+found"


class Remains(NamedTuple):
    """A damaged file, and the directory for its readable stretches: files 0, 1, …"""

    path: str
    target: str
    mode: int
    user: str


Salvage = Callable[[Remains], Promise[str]]
"""Copies; tells what was copied."""


def live_replicas(block: BlockInfo) -> list[StorageInfo]:
    return [storage for storage in block.replicas if storage.datanode.is_alive]


def is_damaged(file: FileInode) -> bool:
    return any(block.is_complete and not live_replicas(block) for block in file.blocks)


class Repairs:
    """Of one fsck; a file a turn of the loop."""

    def __init__(
        self, namenode: NameNode, caller: Caller, salvage: Salvage | None, *, deletes: bool
    ) -> None:
        """Without `salvage` nothing is moved."""
        self._namenode = namenode
        self._caller = caller
        self._salvage = salvage
        self._deletes = deletes
        self._waiting: deque[FileInode] = deque()
        self._done: Promise[None] = Promise()
        self.lines: list[str] = []
        """What was done, for the report."""
        self.has_failed = False

    def run(self, damaged: Iterable[FileInode]) -> Promise[None]:
        """Resolved when all is done and durable."""
        self._waiting.extend(damaged)
        self._next()
        return self._done

    def _next(self) -> None:
        if not self._waiting:
            self._namenode.journal.durable(None).then(self._on_durable)
            return
        file = self._waiting.popleft()
        if not self._is_to_do(file):
            self._go_on()
        elif self._salvage is not None:
            path = file.path()
            remains = Remains(path, LOST_AND_FOUND + path, file.access.mode, self._caller.user)
            self._salvage(remains).then(partial(self._on_moved, file, path))
        else:
            self._delete(file)
            self._go_on()

    def _go_on(self) -> None:
        self._namenode.timers.call_soon(self._next)

    def _on_durable(self, settled: Promise[None]) -> None:
        if settled.error is None:
            self._done.resolve(None)
        else:
            self._done.reject(settled.error)

    def _is_to_do(self, file: FileInode) -> bool:
        """It is in the tree still, nobody writes it, and blocks of it are lost still."""
        is_there = self._namenode.ns.inodes.get(file.inode_id) is file
        return is_there and file.writer is None and is_damaged(file)

    def _on_moved(self, file: FileInode, path: str, settled: Promise[str]) -> None:
        error = settled.error
        if error is not None:
            reason = error.message if isinstance(error, RemoteError) else repr(error)
            self._fail(path, "not moved", reason)
        else:
            told = settled.value()
            self.lines.append(f"{path}: MOVED, {told}")
            self._namenode.events.info("fsck_moved", path=path, copied=told, user=self._caller.user)
            if self._deletes and self._is_to_do(file):
                self._delete(file)
        self._go_on()

    def _delete(self, file: FileInode) -> None:
        path = file.path()
        try:
            self._namenode.decide_now(delete.decide, Delete(path, True), self._caller)
        except RemoteError as error:
            self._fail(path, "not deleted", error.message)
            return
        self.lines.append(f"{path}: DELETED")
        self._namenode.events.info("fsck_deleted", path=path, user=self._caller.user)

    def _fail(self, path: str, what: str, reason: str) -> None:
        self.has_failed = True
        self.lines.append(f"{path}: {what}: {reason}")
        self._namenode.events.warning("fsck_failed", path=path, what=what, reason=reason)
