"""What can be asked of the namespace: one value a request, in the words of ClientNamenodeProtocol.

Owns: the arguments, already decoded. `ops/<verb>.py` answers each: `decide` for what may change
the tree, `read` for what may not; those that need DataNodes go through a method of `NameNode`.
`AT_MOST_ONCE` requests are remembered by the retry cache.
"""

from typing import NamedTuple

from headrace.namespace.values import AclEntry, ExtendedBlock, XAttr

# CreateFlagProto
CREATE, OVERWRITE, APPEND, LAZY_PERSIST, NEW_BLOCK = 0x01, 0x02, 0x04, 0x10, 0x20
IGNORE_CLIENT_LOCALITY = 0x100


class Mkdirs(NamedTuple):
    """-> bool"""

    src: str
    mode: int
    create_parent: bool = True
    unmasked: int | None = None


class Create(NamedTuple):
    """-> FileStatus"""

    src: str
    mode: int
    client_name: str
    flags: int
    create_parent: bool
    replication: int
    block_size: int
    unmasked: int | None = None


class Append(NamedTuple):
    """-> LastBlockWithStatus"""

    src: str
    client_name: str
    flags: int = APPEND


class AddBlock(NamedTuple):
    """-> LocatedBlock. `NameNode.add_block`."""

    src: str
    client_name: str
    previous: ExtendedBlock | None = None
    excluded: tuple[str, ...] = ()
    """DataNode UUIDs."""
    file_id: int = 0
    favored: tuple[str, ...] = ()
    """Transfer addresses, or host names."""
    ignore_locality: bool = False


class AbandonBlock(NamedTuple):
    """-> None"""

    block: ExtendedBlock
    src: str
    holder: str
    file_id: int = 0


class GetAdditionalDatanode(NamedTuple):
    """-> LocatedBlock. `NameNode.get_additional_datanode`."""

    src: str
    block: ExtendedBlock
    existing: tuple[tuple[str, str], ...]
    """(DataNode UUID, storage id)."""
    excluded: tuple[str, ...]
    additional_count: int
    client_name: str
    file_id: int = 0


class Complete(NamedTuple):
    """-> bool. `NameNode.complete`."""

    src: str
    client_name: str
    last: ExtendedBlock | None = None
    file_id: int = 0


class Fsync(NamedTuple):
    """-> None"""

    src: str
    client_name: str
    last_block_length: int = -1
    file_id: int = 0


class UpdateBlockForPipeline(NamedTuple):
    """-> LocatedBlock. `NameNode.update_block_for_pipeline`."""

    block: ExtendedBlock
    client_name: str


class UpdatePipeline(NamedTuple):
    """-> None. `NameNode.update_pipeline`."""

    client_name: str
    old_block: ExtendedBlock
    new_block: ExtendedBlock
    new_nodes: tuple[str, ...]
    """DataNode UUIDs."""
    storage_ids: tuple[str, ...]


class RecoverLease(NamedTuple):
    """-> bool. `NameNode.recover_lease`."""

    src: str
    client_name: str


class Truncate(NamedTuple):
    """-> bool: done at once."""

    src: str
    new_length: int
    client_name: str


class Concat(NamedTuple):
    """-> None"""

    target: str
    sources: tuple[str, ...]


class Delete(NamedTuple):
    """-> bool"""

    src: str
    recursive: bool


class Rename(NamedTuple):
    """-> bool"""

    src: str
    dst: str


class Rename2(NamedTuple):
    """-> None"""

    src: str
    dst: str
    overwrite: bool = False
    move_to_trash: bool = False


class SetReplication(NamedTuple):
    """-> bool"""

    src: str
    replication: int


class SetPermission(NamedTuple):
    """-> None"""

    src: str
    mode: int


class SetOwner(NamedTuple):
    """-> None"""

    src: str
    user: str | None
    group: str | None


class SetTimes(NamedTuple):
    """-> None; -1 leaves a time as it is."""

    src: str
    modification_time_ms: int
    access_time_ms: int


class SetQuota(NamedTuple):
    """-> None; Hadoop's numbers: 2**63-1 leave as it is, -1 none."""

    src: str
    namespace_quota: int
    space_quota: int
    storage_type: int | None = None


class CreateSymlink(NamedTuple):
    """-> None"""

    target: str
    link: str
    mode: int
    create_parent: bool


class ModifyAclEntries(NamedTuple):
    src: str
    entries: tuple[AclEntry, ...]


class RemoveAclEntries(NamedTuple):
    src: str
    entries: tuple[AclEntry, ...]


class RemoveDefaultAcl(NamedTuple):
    src: str


class RemoveAcl(NamedTuple):
    src: str


class SetAcl(NamedTuple):
    src: str
    entries: tuple[AclEntry, ...]


class SetXAttr(NamedTuple):
    """flags: 1 create, 2 replace."""

    src: str
    xattr: XAttr
    flags: int


class RemoveXAttr(NamedTuple):
    src: str
    xattr: XAttr


class SetStoragePolicy(NamedTuple):
    src: str
    policy_name: str


class UnsetStoragePolicy(NamedTuple):
    src: str


class AllowSnapshot(NamedTuple):
    src: str


class DisallowSnapshot(NamedTuple):
    src: str


class CreateSnapshot(NamedTuple):
    """-> str: the snapshot's path."""

    src: str
    name: str


class DeleteSnapshot(NamedTuple):
    src: str
    name: str


class RenameSnapshot(NamedTuple):
    src: str
    old_name: str
    new_name: str


class RenameSet(NamedTuple):
    """-> None. Renames and deletes together, all or nothing; the extension for compaction."""

    renames: tuple[tuple[str, str], ...]
    deletes: tuple[str, ...] = ()


class AddCachePool(NamedTuple):
    """-> None. What is None has its default."""

    name: str
    owner: str | None = None
    group: str | None = None
    mode: int | None = None
    limit_bytes: int | None = None
    default_replication: int | None = None
    max_relative_expiry_ms: int | None = None


class ModifyCachePool(NamedTuple):
    """-> None. What is None stays."""

    name: str
    owner: str | None = None
    group: str | None = None
    mode: int | None = None
    limit_bytes: int | None = None
    default_replication: int | None = None
    max_relative_expiry_ms: int | None = None


class RemoveCachePool(NamedTuple):
    """-> None. Its directives go with it."""

    name: str


class AddCacheDirective(NamedTuple):
    """-> int: its id."""

    path: str | None
    pool: str | None
    replication: int | None = None
    expiry_ms: int | None = None
    is_expiry_relative: bool = False
    force: bool = False
    """Though the pool's limit be exceeded."""


class ModifyCacheDirective(NamedTuple):
    """-> None. What is None stays."""

    directive_id: int
    path: str | None = None
    pool: str | None = None
    replication: int | None = None
    expiry_ms: int | None = None
    is_expiry_relative: bool = False
    force: bool = False


class RemoveCacheDirective(NamedTuple):
    """-> None"""

    directive_id: int


# -- reads --------------------------------------------------------------------------------------


class GetFileInfo(NamedTuple):
    """-> FileStatus | None"""

    src: str


class GetFileLinkInfo(NamedTuple):
    """-> FileStatus | None; does not follow the last symlink."""

    src: str


class GetLocatedFileInfo(NamedTuple):
    """-> FileStatus | None, with locations."""

    src: str
    need_token: bool = False
    """Who wants to read is asked whether he may."""


class GetListing(NamedTuple):
    """-> DirectoryListing | None"""

    src: str
    start_after: bytes
    need_location: bool = False


class GetBlockLocations(NamedTuple):
    """-> LocatedBlocks. `NameNode.get_block_locations`."""

    src: str
    offset: int
    length: int


class GetContentSummary(NamedTuple):
    src: str


class GetQuotaUsage(NamedTuple):
    src: str


class GetPreferredBlockSize(NamedTuple):
    src: str


class IsFileClosed(NamedTuple):
    src: str


class GetLinkTarget(NamedTuple):
    """-> str"""

    src: str


class CheckAccess(NamedTuple):
    """mode: FsActionProto's bits, r=4 w=2 x=1. -> None or AccessControlException."""

    src: str
    mode: int


class GetAclStatus(NamedTuple):
    src: str


class GetXAttrs(NamedTuple):
    """-> tuple[XAttr, ...]; no names: all that the caller may see."""

    src: str
    names: tuple[XAttr, ...] = ()


class ListXAttrs(NamedTuple):
    src: str


class GetStoragePolicy(NamedTuple):
    """-> StoragePolicy"""

    src: str


class GetErasureCodingPolicy(NamedTuple):
    """-> None: there is no such policy"""

    src: str


class GetEncryptionZone(NamedTuple):
    """-> None"""

    src: str


class GetEnclosingRoot(NamedTuple):
    """-> str"""

    src: str


class GetSnapshottableDirListing(NamedTuple):
    """-> tuple[SnapshottableDirectory, ...]"""


class GetSnapshotListing(NamedTuple):
    """-> tuple[SnapshotStatus, ...]"""

    src: str


class GetSnapshotDiffReport(NamedTuple):
    """-> SnapshotDiffReport; an empty name is the present."""

    src: str
    from_snapshot: str
    to_snapshot: str


class GetSnapshotDiffReportListing(NamedTuple):
    """-> SnapshotDiffListing: the changes from the cursor on, at most `listing_limit`."""

    src: str
    from_snapshot: str
    to_snapshot: str
    start_path: str = ""
    start_index: int = -1


class ListOpenFiles(NamedTuple):
    """-> tuple[OpenFile, ...] with inode ids above `after_id`, at most 1000."""

    after_id: int
    path: str = "/"


class ListCachePools(NamedTuple):
    """-> ListedPools, by name."""

    after_name: str = ""


class ListCacheDirectives(NamedTuple):
    """-> ListedDirectives, by id; None: of any."""

    after_id: int = 0
    directive_id: int | None = None
    path: str | None = None
    pool: str | None = None


AT_MOST_ONCE: frozenset[type] = frozenset(
    {
        Create,
        Append,
        Rename,
        Rename2,
        Concat,
        Truncate,
        Delete,
        CreateSymlink,
        UpdatePipeline,
        CreateSnapshot,
        DeleteSnapshot,
        RenameSnapshot,
        SetXAttr,
        RemoveXAttr,
        RenameSet,
        AddCachePool,
        ModifyCachePool,
        RemoveCachePool,
        AddCacheDirective,
        ModifyCacheDirective,
        RemoveCacheDirective,
    }
)
