"""Inodes: directories, files and symlinks, small enough that a million fit in memory.

Owns: the objects, their rarer features, and how a snapshot sees them.
Must not know: paths, permissions, where replicas are.

Sizes matter here: slots only; owner, group and mode are one shared `Access`; what few inodes have
hangs in `features`, which is None for the rest. Names are `str`: code point order is the UTF-8
byte order by which HDFS lists.

Invariants: `parent.children[name] is inode` for every inode of the live tree; a state saved for
a snapshot is a frozen copy of the same class and holds for every snapshot after the saved one
before it.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

from headrace.namespace.blocks import BlockInfo
from headrace.namespace.values import DIRECTORY, FILE, SYMLINK, AclEntry, XAttr

ROOT_ID: Final = 16385
CURRENT: Final = 2**31 - 2
"""The snapshot id that stands for the present, as Hadoop numbers it."""


class Access(NamedTuple):
    owner: str
    group: str
    mode: int


class Writer(NamedTuple):
    """Who holds the lease of an open file."""

    client_name: str
    client_machine: str


class Quota:
    """Limits of a directory and what is used below it (itself included); -1: no limit."""

    __slots__ = ("namespace", "namespace_used", "space", "space_used")

    def __init__(self, namespace: int, space: int) -> None:
        self.namespace = namespace
        self.space = space
        self.namespace_used = 0
        self.space_used = 0

    def copied(self) -> "Quota":
        copy = Quota(self.namespace, self.space)
        copy.namespace_used, copy.space_used = self.namespace_used, self.space_used
        return copy


class SavedState(NamedTuple):
    """What an inode was at `snapshot_id` and back to the saved state before it."""

    snapshot_id: int
    state: "Inode"


class Snapshot(NamedTuple):
    snapshot_id: int
    name: str
    time_ms: int
    inode_id_bound: int
    """Inodes with this id or above were made later."""


class Features:
    """What few inodes have. Defaults are the class's: every file that is made has this for a while,
    and sets one of them."""

    acl: tuple[AclEntry, ...] = ()
    xattrs: tuple[XAttr, ...] = ()
    writer: Writer | None = None
    quota: Quota | None = None
    storage_policy = 0
    snapshots: dict[str, Snapshot] | None = None
    """By name, oldest first; None: not snapshottable."""
    captured_by: tuple[Snapshot, ...] = ()
    """Snapshots of where this subtree was before it was moved or deleted."""
    saved: tuple[SavedState, ...] = ()
    """Ascending by snapshot id."""
    frozen_length = -1
    """In a saved state of a file: its length then."""
    access_time_ms = 0
    """Of a directory: only setTimes sets it. Files have theirs at hand."""

    @property
    def is_plain(self) -> bool:
        return not (
            self.acl
            or self.xattrs
            or self.writer
            or self.quota
            or self.storage_policy
            or self.snapshots is not None
            or self.captured_by
            or self.saved
            or self.frozen_length >= 0
            or self.access_time_ms
        )

    def copied(self) -> "Features":
        """What a saved state keeps."""
        copy = Features()
        copy.acl = self.acl
        copy.xattrs = self.xattrs
        copy.quota = None if self.quota is None else self.quota.copied()
        copy.storage_policy = self.storage_policy
        copy.access_time_ms = self.access_time_ms
        return copy


class Inode:
    __slots__ = ("access", "features", "inode_id", "modification_time_ms", "name", "parent")

    kind: ClassVar[int] = 0

    def __init__(self, inode_id: int, name: str, access: Access, modification_time_ms: int) -> None:
        self.inode_id = inode_id
        self.name = name
        self.parent: DirectoryInode | None = None
        self.access = access
        self.modification_time_ms = modification_time_ms
        self.features: Features | None = None

    # -- features ----------------------------------------------------------------------------

    def with_features(self) -> Features:
        if self.features is None:
            self.features = Features()
        return self.features

    def drop_plain_features(self) -> None:
        features = self.features
        if features is not None and features.is_plain:
            self.features = None

    @property
    def acl(self) -> tuple[AclEntry, ...]:
        return () if self.features is None else self.features.acl

    @property
    def xattrs(self) -> tuple[XAttr, ...]:
        return () if self.features is None else self.features.xattrs

    @property
    def storage_policy(self) -> int:
        return 0 if self.features is None else self.features.storage_policy

    @property
    def saved(self) -> tuple[SavedState, ...]:
        return () if self.features is None else self.features.saved

    # -- snapshots ---------------------------------------------------------------------------

    def at(self, snapshot_id: int) -> "Inode":
        """This inode as that snapshot sees it."""
        if self.features is not None:
            for saved in self.features.saved:
                if saved.snapshot_id >= snapshot_id:
                    return saved.state
        return self

    def frozen(self) -> "Inode":
        raise NotImplementedError

    def _freeze_into(self, copy: "Inode") -> None:
        copy.parent = self.parent
        if self.features is not None:
            copy.features = self.features.copied()

    # -- place -------------------------------------------------------------------------------

    def path(self) -> str:
        if self.parent is None:
            return "/" if self.inode_id == ROOT_ID else self.name
        names: list[str] = []
        node: Inode | None = self
        while node is not None and node.parent is not None:
            names.append(node.name)
            node = node.parent
        return "/" + "/".join(reversed(names))

    def ancestors(self) -> "Iterator[DirectoryInode]":
        """From the parent up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def is_attached(self) -> bool:
        """In the live tree, not only in snapshots."""
        node: Inode = self
        while node.parent is not None:
            if node.parent.children.get(node.name) is not node:
                return False
            node = node.parent
        return node.inode_id == ROOT_ID


_SIGNED: Final = bytes((value + 128) % 256 for value in range(256))


def listing_order(name: str) -> bytes:
    """A key that sorts names as HDFS does, by signed bytes: what is beyond ASCII comes first."""
    return name.encode("utf-8", "surrogatepass").translate(_SIGNED)


class DirectoryInode(Inode):
    __slots__ = ("_sorted", "children")

    kind: ClassVar[int] = DIRECTORY

    def __init__(self, inode_id: int, name: str, access: Access, modification_time_ms: int) -> None:
        super().__init__(inode_id, name, access, modification_time_ms)
        self.children: dict[str, Inode] = {}
        self._sorted: list[str] | None = None

    def add(self, child: Inode) -> None:
        assert child.name not in self.children
        self.children[child.name] = child
        child.parent = self
        self._sorted = None

    def remove(self, child: Inode) -> None:
        """The child keeps its parent, so that what is below a detached tree can name itself."""
        del self.children[child.name]
        self._sorted = None

    def names_after(self, start_after: str, count_max: int) -> tuple[list[str], int]:
        """The next names behind `start_after`, in HDFS's order, and how many there are in all."""
        if self._sorted is None:
            is_plain = all(map(str.isascii, self.children))
            self._sorted = sorted(self.children, key=None if is_plain else listing_order)
        first = 0
        if start_after:
            first = bisect_right(self._sorted, listing_order(start_after), key=listing_order)
        return self._sorted[first : first + count_max], len(self._sorted) - first

    @property
    def quota(self) -> Quota | None:
        return None if self.features is None else self.features.quota

    @property
    def snapshots(self) -> dict[str, Snapshot] | None:
        return None if self.features is None else self.features.snapshots

    def frozen(self) -> "DirectoryInode":
        copy = DirectoryInode(self.inode_id, self.name, self.access, self.modification_time_ms)
        copy.children = dict(self.children)
        self._freeze_into(copy)
        return copy


class FileInode(Inode):
    __slots__ = ("access_time_ms", "block_size", "blocks", "replication")

    kind: ClassVar[int] = FILE

    def __init__(
        self,
        inode_id: int,
        name: str,
        access: Access,
        modification_time_ms: int,
        access_time_ms: int,
        replication: int,
        block_size: int,
    ) -> None:
        super().__init__(inode_id, name, access, modification_time_ms)
        self.access_time_ms = access_time_ms
        self.replication = replication
        self.block_size = block_size
        self.blocks: tuple[BlockInfo, ...] = ()

    @property
    def writer(self) -> Writer | None:
        return None if self.features is None else self.features.writer

    @property
    def last_block(self) -> BlockInfo | None:
        return self.blocks[-1] if self.blocks else None

    @property
    def length(self) -> int:
        """Of the complete blocks, and of the last one as far as it was told."""
        if self.features is not None and self.features.frozen_length >= 0:
            return self.features.frozen_length
        blocks = self.blocks
        if len(blocks) == 1:
            return blocks[0].num_bytes
        return sum(block.num_bytes for block in blocks)

    @property
    def length_complete(self) -> int:
        """Without a last block that is still being written."""
        last = self.last_block
        if last is None or last.uc is None:
            return self.length
        return sum(block.num_bytes for block in self.blocks[:-1])

    @property
    def space(self) -> int:
        """Bytes that count against a space quota; a block being written counts whole."""
        size = sum(block.num_bytes for block in self.blocks)
        last = self.last_block
        if last is not None and last.uc is not None and not last.uc.is_committed:
            size += self.block_size - last.num_bytes
        return size * self.replication

    def frozen(self) -> "FileInode":
        copy = FileInode(
            self.inode_id,
            self.name,
            self.access,
            self.modification_time_ms,
            self.access_time_ms,
            self.replication,
            self.block_size,
        )
        copy.blocks = self.blocks
        self._freeze_into(copy)
        copy.with_features().frozen_length = self.length
        return copy


class SymlinkInode(Inode):
    __slots__ = ("target",)

    kind: ClassVar[int] = SYMLINK

    def __init__(
        self, inode_id: int, name: str, access: Access, modification_time_ms: int, target: str
    ) -> None:
        super().__init__(inode_id, name, access, modification_time_ms)
        self.target = target

    def frozen(self) -> "SymlinkInode":
        copy = SymlinkInode(
            self.inode_id, self.name, self.access, self.modification_time_ms, self.target
        )
        self._freeze_into(copy)
        return copy
