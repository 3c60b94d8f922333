"""The trash's emptier: every so often `Current` becomes a checkpoint, and old checkpoints go.

Owns: when that happens, which checkpoints are old, the figures that are told of it.
Must not know: how files come into the trash (clients move them there), RPC, HTTP.
Spec: TrashPolicyDefault.Emptier. A round is due whenever the wall clock passes a multiple of the
checkpoint interval; one that safe mode falls on is left out. Roots are `/user/NAME/.Trash`, as
DistributedFileSystem.getTrashRoots finds them without encryption zones.

Invariants: every change is a request of the superuser that is decided and journalled like
anybody's; a turn of the loop does about `_STEP_INODES` inodes' work, and the next turn comes when
that is durable. A checkpoint that is being deleted is seen to shrink; one that a restart interrupts
is old still, and the next round ends it.
"""

from collections.abc import Generator, Iterator
from datetime import UTC, tzinfo
from itertools import islice

from headrace.base.promise import Promise
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, Inode
from headrace.namespace.ops import delete, rename
from headrace.namespace.requests import Delete, Rename2
from headrace.namespace.service import NamespaceService
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.trash_names import (
    CURRENT,
    HOMES,
    checkpoint_name,
    checkpoint_time_ms,
    trash_root,
)

_MINUTE_MS = 60_000
_LOOK_MS = 60_000
"""How long at most until the wall clock is asked again: it may jump."""
_STEP_INODES = 1_000
_DECISION_INODES = 5
"""What a decision costs, in inodes that go along with a directory."""
_SAME_SECOND_MAX = 1_000


class TrashEmptier:
    def __init__(self, service: NamespaceService) -> None:
        settings = service.settings
        self._service = service
        self._caller = Caller(settings.superuser)
        self._interval_ms = settings.trash_interval_min * _MINUTE_MS
        wanted_ms = settings.trash_checkpoint_interval_min * _MINUTE_MS
        self._round_ms = wanted_ms if 0 < wanted_ms <= self._interval_ms else self._interval_ms
        self._due_ms = 0
        self._round: Generator[None, None, None] | None = None
        self._removed = 0
        """Inodes of the checkpoint that is being deleted."""
        self.zone: tzinfo | None = UTC
        """Of the names of checkpoints; None: the machine's."""
        self.checkpoints_made = 0
        self.checkpoints_deleted = 0
        self.inodes_deleted = 0
        self.refusals = 0

    def counters(self) -> tuple[tuple[str, str, int], ...]:
        return (
            ("trash_checkpoints", "Trash that became a checkpoint.", self.checkpoints_made),
            (
                "trash_checkpoints_deleted",
                "Checkpoints of the trash that were old enough and are gone.",
                self.checkpoints_deleted,
            ),
            ("trash_inodes_deleted", "Files and directories in them.", self.inodes_deleted),
            ("trash_refusals", "What could not be done with somebody's trash.", self.refusals),
        )

    def start(self) -> None:
        if not self._interval_ms:
            return
        self._service.events.info(
            "trash_kept",
            interval_min=self._interval_ms // _MINUTE_MS,
            checkpoint_interval_min=self._round_ms // _MINUTE_MS,
        )
        self._await_next()

    # -- when --------------------------------------------------------------------------------

    def _await_next(self) -> None:
        now_ms = self._service.clock.now_ms()
        self._due_ms = (now_ms // self._round_ms + 1) * self._round_ms
        self._look_later()

    def _look_later(self) -> None:
        left_ms = self._due_ms - self._service.clock.now_ms()
        self._service.timers.call_later(min(max(left_ms, 0), _LOOK_MS), self._look)

    def _look(self) -> None:
        now_ms = self._service.clock.now_ms()
        if now_ms < self._due_ms - self._round_ms:
            self._await_next()  # the clock was set back by more than a round
        elif now_ms < self._due_ms:
            self._look_later()
        else:
            self._await_next()
            self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        if self._round is not None:
            return  # the last one still deletes
        if self._service.safe_mode.is_on:
            self._service.events.info("trash_left_alone", reason="safe mode")
            return
        self._round = self._steps(now_ms)
        self._step()

    def _step(self) -> None:
        """One slice of the round; the next when this one is durable."""
        assert self._round is not None
        try:
            next(self._round)
        except StopIteration:
            self._round = None
            return
        except BaseException:
            self._round = None  # the next one begins anew
            raise
        self._service.journal.durable(None).then(self._on_durable)

    def _on_durable(self, done: Promise[None]) -> None:
        if done.error is None:
            self._service.timers.call_soon(self._step)
        else:
            self._round = None

    # -- what --------------------------------------------------------------------------------

    def _steps(self, now_ms: int) -> Generator[None, None, None]:
        """A round. Checkpoints are made before any is deleted, which may take long."""
        old: list[str] = []
        homes = self._at(HOMES)
        users = sorted(homes.children) if isinstance(homes, DirectoryInode) else []
        for user in users:
            path = trash_root(user)
            root = self._at(path)
            if isinstance(root, DirectoryInode):
                old += self._old(path, root, now_ms)
                if CURRENT in root.children:
                    self._make_checkpoint(path, now_ms)
                yield
        for path in old:
            if self._service.safe_mode.is_on:
                return
            yield from self._delete(path)

    def _old(self, path: str, root: DirectoryInode, now_ms: int) -> Iterator[str]:
        """A round may come exactly an interval after one that made a checkpoint: it is old then."""
        for name in sorted(root.children):
            if name == CURRENT:
                continue
            made_ms = checkpoint_time_ms(name, self.zone)
            if made_ms is None:
                self._service.events.warning(
                    "trash_unexpected", path=f"{path}/{name}", reason="left alone"
                )
            elif now_ms - made_ms >= self._interval_ms:
                yield f"{path}/{name}"

    def _make_checkpoint(self, root: str, now_ms: int) -> None:
        base = f"{root}/{checkpoint_name(now_ms, self.zone)}"
        for attempt in range(_SAME_SECOND_MAX):
            target = f"{base}-{attempt}" if attempt else base
            request = Rename2(f"{root}/{CURRENT}", target)
            try:
                self._service.decide_now(rename.decide2, request, self._caller)
            except RemoteError as error:
                if error.class_name == exceptions.FILE_ALREADY_EXISTS:
                    continue
                self._on_refusal(root, error)
                return
            self.checkpoints_made += 1
            self._service.events.info("trash_checkpoint", path=target)
            return

    def _delete(self, path: str) -> Generator[None, None, None]:
        self._removed = 0
        try:
            yield from self._deleting(path)
        except RemoteError as error:
            self._on_refusal(path, error)
            return
        self.checkpoints_deleted += 1
        self._service.events.info("trash_deleted", path=path, inodes=self._removed)

    def _deleting(self, top: str) -> Generator[None, None, None]:
        """From the leaves up, in pieces that are small enough for a turn of the loop.

        Paths are looked up anew in every turn: others may move things out meanwhile.
        """
        room = _STEP_INODES
        waiting = [top]
        while waiting:
            path = waiting.pop()
            inode = self._at(path)
            if inode is None:
                continue
            count = _count(inode, _STEP_INODES)
            if count > _STEP_INODES:
                assert isinstance(inode, DirectoryInode)
                waiting.append(path)
                waiting += [f"{path}/{name}" for name in islice(inode.children, _STEP_INODES)]
                room -= _STEP_INODES
            else:
                self._service.decide_now(delete.decide, Delete(path, True), self._caller)
                self._removed += count
                self.inodes_deleted += count
                room -= count + _DECISION_INODES
            if room <= 0:
                room = _STEP_INODES
                yield

    def _at(self, path: str) -> Inode | None:
        inode: Inode | None = self._service.ns.root
        for name in path[1:].split("/"):
            inode = inode.children.get(name) if isinstance(inode, DirectoryInode) else None
        return inode

    def _on_refusal(self, path: str, error: RemoteError) -> None:
        self.refusals += 1
        self._service.events.warning("trash_refused", path=path, reason=error.message)


def _count(top: Inode, limit: int) -> int:
    """Inodes from `top` down; any number beyond `limit` if there are more."""
    count = 0
    waiting = [top]
    while waiting and count <= limit:
        inode = waiting.pop()
        count += 1
        if isinstance(inode, DirectoryInode):
            if len(inode.children) > limit:
                return count + len(inode.children)
            waiting += inode.children.values()
    return count
