"""Leases: which client writes which files, and when it was last heard of.

Owns: holder -> open files (follows from the journal) and the time of the last renewal (soft, on
the monotonic clock: after a restart every lease starts fresh).
Invariants (D6): a file that is open has exactly one holder; one that is closed has none.
"""

from typing import Final

RESUMABLE_MAX: Final = 64
"""A start adds one at most."""
NN_RECOVERY: Final = "HDFS_NameNode"
"""The NameNode's own name when it ends a file for a writer that is gone."""


class Lease:
    __slots__ = ("files", "holder", "renewed_ms")

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.files: set[int] = set()
        self.renewed_ms = -1
        """-1: not looked at since it was made."""


class LeaseTable:
    def __init__(self) -> None:
        self.by_holder: dict[str, Lease] = {}
        self.resumable: dict[int, str] = {}
        """Files that a start took for closed (`ops.complete`), and the writer that may go on."""
        self._heard_ms: dict[int, int] = {}
        """When that writer was last heard of; soft."""

    def add(self, holder: str, inode_id: int) -> None:
        if self.resumable:
            self.resumable.pop(inode_id, None)
        lease = self.by_holder.get(holder)
        if lease is None:
            lease = self.by_holder[holder] = Lease(holder)
        lease.files.add(inode_id)

    def remove(self, holder: str, inode_id: int) -> None:
        lease = self.by_holder.get(holder)
        if lease is None:
            return
        lease.files.discard(inode_id)
        if not lease.files:
            del self.by_holder[holder]

    def let_resume(self, holder: str, inode_id: int) -> None:
        """Until somebody opens the file; the oldest are forgotten."""
        self.resumable[inode_id] = holder
        if len(self.resumable) > RESUMABLE_MAX:
            del self.resumable[next(iter(self.resumable))]

    def silent_resumable(self, limit_ms: int, now_ms: int) -> list[int]:
        """Files that a writer may go on with who was not heard of for so long."""
        heard_ms = {i: self._heard_ms.get(i, now_ms) for i in self.resumable}
        self._heard_ms = heard_ms
        return [i for i, ms in heard_ms.items() if now_ms - ms > limit_ms]

    def renew(self, holder: str, now_ms: int) -> None:
        for inode_id, writer in self.resumable.items():
            if writer == holder:
                self._heard_ms[inode_id] = now_ms
        lease = self.by_holder.get(holder)
        if lease is not None:
            lease.renewed_ms = now_ms

    def age_ms(self, holder: str, now_ms: int) -> int:
        """Time since the holder was heard of; a lease never looked at begins now."""
        lease = self.by_holder.get(holder)
        if lease is None:
            return 0
        if lease.renewed_ms < 0:
            lease.renewed_ms = now_ms
        return now_ms - lease.renewed_ms

    def older_than(self, limit_ms: int, now_ms: int) -> list[Lease]:
        return [
            lease
            for holder, lease in list(self.by_holder.items())
            if self.age_ms(holder, now_ms) > limit_ms
        ]

    @property
    def open_file_count(self) -> int:
        return sum(len(lease.files) for lease in self.by_holder.values())
