"""What the namespace answers: plain values, taken at the moment of the decision.

Owns: the shapes that the RPC and HTTP translators turn into messages. They hold no reference to
an inode, because an answer may leave later than the tree changes; a `Location` names its
DataNode's descriptor, whose address is fixed.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.namespace.datanodes import DatanodeDescriptor, StorageInfo

DIRECTORY = 1
FILE = 2
SYMLINK = 3


class ExtendedBlock(NamedTuple):
    pool_id: str
    block_id: int
    generation_stamp: int
    num_bytes: int


class Location(NamedTuple):
    """One replica: `storage.datanode` is its DataNode."""

    datanode: "DatanodeDescriptor"
    storage: "StorageInfo"


class LocatedBlock(NamedTuple):
    block: ExtendedBlock
    offset: int
    locations: tuple["StorageInfo", ...]
    """Each storage knows its DataNode, id and type."""
    is_corrupt: bool = False

    @property
    def cached(self) -> tuple["StorageInfo", ...]:
        """Those whose DataNode holds the replica in memory."""
        block_id = self.block.block_id
        return tuple(s for s in self.locations if block_id in s.datanode.cached)


class LocatedBlocks(NamedTuple):
    file_length: int
    blocks: tuple[LocatedBlock, ...]
    is_under_construction: bool
    last_block: LocatedBlock | None
    is_last_block_complete: bool


class FileStatus(NamedTuple):
    """As HdfsFileStatusProto; `path` is the local name (empty for the asked path itself)."""

    kind: int
    path: str
    length: int
    mode: int
    owner: str
    group: str
    modification_time_ms: int
    access_time_ms: int
    symlink: str
    replication: int
    block_size: int
    inode_id: int
    children_count: int
    storage_policy: int
    has_acl: bool
    is_snapshottable: bool
    locations: LocatedBlocks | None = None


class DirectoryListing(NamedTuple):
    entries: tuple[FileStatus, ...]
    remaining_count: int


class ContentSummary(NamedTuple):
    length: int
    file_count: int
    directory_count: int
    quota: int
    """-1: none."""
    space_consumed: int
    space_quota: int
    snapshot_length: int = 0
    snapshot_file_count: int = 0
    snapshot_directory_count: int = 0
    snapshot_space_consumed: int = 0


class QuotaUsage(NamedTuple):
    file_and_directory_count: int
    quota: int
    space_consumed: int
    space_quota: int


class FsStats(NamedTuple):
    capacity: int
    used: int
    remaining: int
    under_replicated: int
    corrupt_blocks: int
    missing_blocks: int
    missing_repl_one_blocks: int
    pending_deletion_blocks: int
    highest_priority_blocks: int
    """Of those short of replicas, the ones that the next failure would lose."""
    badly_placed_blocks: int
    """With all their replicas on one rack."""
    future_bytes: int
    """Of replicas from the future, which leaving safe mode by force would delete."""


class LastBlockWithStatus(NamedTuple):
    block: LocatedBlock | None
    status: FileStatus


class AclEntry(NamedTuple):
    """As AclEntryProto: type 0 user, 1 group, 2 mask, 3 other; scope 0 access, 1 default."""

    type: int
    scope: int
    permission: int
    name: str = ""


class AclStatus(NamedTuple):
    owner: str
    group: str
    mode: int | None
    """None of a `.snapshot` folder."""
    sticky: bool
    entries: tuple[AclEntry, ...]


class XAttr(NamedTuple):
    """`namespace`: 0 user, 1 trusted, 2 security, 3 system, 4 raw."""

    namespace: int
    name: str
    value: bytes = b""


class SnapshottableDirectory(NamedTuple):
    status: FileStatus
    parent_path: str
    snapshot_quota: int
    snapshot_number: int


class SnapshotStatus(NamedTuple):
    status: FileStatus
    snapshot_id: int
    parent_path: str
    is_deleted: bool = False


class SnapshotDiffEntry(NamedTuple):
    """`kind`: "M", "+", "-" or "R"; paths relative to the snapshottable directory."""

    kind: str
    path: str
    target_path: str = ""
    inode_id: int = 0
    directory_id: int = 0
    """The modified directory that it happened in; of a modified directory, itself; else 0."""


class SnapshotDiffListing(NamedTuple):
    """A part of a comparison, told from the older to the newer moment; `cursor`: where the next
    part begins (path of a modified inode, index of a change in it, -1 the inode itself)."""

    entries: tuple[SnapshotDiffEntry, ...]
    is_from_earlier: bool
    cursor: tuple[str, int] | None


class SnapshotDiffReport(NamedTuple):
    root: str
    from_snapshot: str
    to_snapshot: str
    entries: tuple[SnapshotDiffEntry, ...]


class OpenFile(NamedTuple):
    inode_id: int
    path: str
    client_name: str
    client_machine: str


class CorruptFileBlocks(NamedTuple):
    files: tuple[str, ...]
    cookie: str
