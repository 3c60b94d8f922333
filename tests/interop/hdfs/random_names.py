"""Random calls about names, by seed: the same ones for every NameNode that is to be compared.

Owns: which calls are made, by whom and on which paths. Must not know: any answer. The paths are
few and collide on purpose; some are no paths at all. Calls carry raw messages, so that flags can be
sent that no client sends.

Left out, because the two are known to part there (docs/NAMESPACE.md): making symlinks, storage
policies other than HOT, quotas by storage type, erasure coding, encryption zones, `/.reserved`
itself. And what no client sends and only Apache's takes: empty names of writers, owners and
attributes, block sizes that checksums do not divide, one ACL entry twice, a snapshot named `.`.
"""

import getpass
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from google.protobuf.message import Message

from headrace.wire.hadoop.protos import acl_pb2 as acl
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import encryption_pb2 as encryption
from headrace.wire.hadoop.protos import erasure_coding_pb2 as coding
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import xattr_pb2 as xattr

SUPERUSER = getpass.getuser()
"""Whoever runs the NameNodes."""
USERS = (SUPERUSER, "daemon", "bin", "nobody-knows")
"""Each system user has a group of his name; the last is no user of the system and has no group."""
GROUPS = ("daemon", "bin", "supergroup", "staff")
WRITERS = ("writer-1", "writer-2")
NAMES = ("a", "b", "c", "f")
SNAPSHOTTABLE = "/a"
"""From the beginning, where snapshots are made at all."""
SNAPSHOTS = ("s1", "s2", "s3")
POOLS = ("p1", "p2")
BLOCK_SIZE = 1 << 20

LEAVE = 2**63 - 1
RESET = 2**64 - 1
NO_TIME = 2**64 - 1

ODD_NAMES = (
    "",
    ".",
    "..",
    ".snapshot",
    ".reserved",
    ".x",
    "a:b",
    "x" * 255,
    "x" * 256,
    "ü" * 127 + "x",
    "ü" * 128,
    "日本",
    "a b",
    "%41",
    "\U0001f600",
)
ODD_PATHS = (
    "",
    "/",
    "//",
    "a/b",
    "/.snapshot",
    "/.snapshot/s1",
    "/.reserved/raw",
    "/.reserved/raw/a",
    "/.reserved/raw/a/b",
    "/.reserved/.inodes",
    "/.reserved/.inodes/16385",
    "/.reserved/.inodes/16385/a",
    "/.reserved/.inodes/1",
    "/.reserved/.inodes/x",
    "/.reserved/other",
    "/a/.reserved",
    "/" + "/".join(["d"] * 60),
    "/" + "/".join(["x" * 200] * 41),
)


class Call(NamedTuple):
    user: str
    method: str
    request: Message

    def __str__(self) -> str:
        fields = " ".join(str(self.request).split())
        return f"{self.user} {self.method} {fields}"


class Dice:
    """What a seed decides."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def one_of(self, choices: Any) -> Any:
        return self._random.choice(choices)

    def some_of(self, choices: Any, count_max: int) -> list[Any]:
        return [self.one_of(choices) for _ in range(self._random.randint(0, count_max))]

    def count(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def user(self) -> str:
        return SUPERUSER if self.chance(0.6) else str(self.one_of(USERS[1:]))

    def path(self) -> str:
        if self.chance(0.04):
            return str(self.one_of(ODD_PATHS))
        names = [self.one_of(NAMES) for _ in range(self.one_of((1, 1, 1, 2, 2, 2, 3, 3, 4)))]
        if self.chance(0.03):
            names.insert(self.count(0, len(names)), self.one_of(ODD_NAMES))
        if self.chance(0.06):
            place = self.count(0, len(names))
            names[place:place] = [".snapshot", self.one_of(SNAPSHOTS)]
        elif self.chance(0.02):
            names.append(".snapshot")
        return "/" + "/".join(names) + ("/" if self.chance(0.02) else "")

    def short_path(self) -> str:
        """Likely a directory, likely one that others are below."""
        if self.chance(0.25):
            return self.path()
        if self.chance(0.5):
            return SNAPSHOTTABLE
        return "/" + "/".join(self.one_of(NAMES[:3]) for _ in range(self.count(1, 2)))

    def mode(self) -> acl.FsPermissionProto:
        modes = (0o777, 0o755, 0o755, 0o750, 0o700, 0o644, 0o000, 0o1777, 0o1755, 0o077, 0o7777)
        return acl.FsPermissionProto(perm=self.one_of(modes))

    def snapshot(self) -> str:
        return str(self.one_of(SNAPSHOTS))

    def xattr(self, *, with_value: bool) -> xattr.XAttrProto:
        found = xattr.XAttrProto(
            namespace=self.one_of((0, 0, 0, 0, 1, 1, 2, 3, 4)),
            name=self.one_of(("k1", "k1", "k2", "k3", "ü", "K1")),
        )
        if with_value and self.chance(0.8):
            size = self.count(0, 3) if self.chance(0.95) else self.one_of((16382, 16383, 16384))
            found.value = b"v" * size
        return found

    def acl_entry(self, *, with_action: bool = True) -> acl.AclEntryProto:
        kind = self.one_of((0, 0, 0, 1, 1, 2, 3))
        entry = acl.AclEntryProto(
            type=kind,
            scope=self.one_of((0, 0, 1)),
            permissions=self.count(0, 7) if with_action else 0,
        )
        if kind in (0, 1) and self.chance(0.7):
            entry.name = self.one_of(USERS[1:] if kind == 0 else GROUPS)
        elif self.chance(0.02):
            entry.name = "stray"
        return entry

    def acl_spec(self, *, whole: bool) -> list[acl.AclEntryProto]:
        keyed = [self.acl_entry() for _ in range(self.count(0, 4))]
        spec = list({(one.type, one.scope, one.name): one for one in keyed}.values())
        if whole and self.chance(0.85):
            base = [
                acl.AclEntryProto(type=kind, scope=0, permissions=self.count(0, 7))
                for kind in (0, 1, 3)
            ]
            spec = base + [one for one in spec if one.scope or one.name or one.type == 2]
        return spec

    def block(self) -> hdfs.ExtendedBlockProto:
        return hdfs.ExtendedBlockProto(poolId="x", blockId=1, generationStamp=1, numBytes=0)


Maker = Callable[[Dice], tuple[str, Message]]
_MAKERS: list[tuple[int, Maker]] = []


def _weighing(weight: int) -> Callable[[Maker], Maker]:
    def keep(maker: Maker) -> Maker:
        _MAKERS.append((weight, maker))
        return maker

    return keep


# -- the tree -------------------------------------------------------------------------------------


@_weighing(18)
def _mkdirs(d: Dice) -> tuple[str, Message]:
    request = pb.MkdirsRequestProto(src=d.path(), masked=d.mode(), createParent=d.chance(0.7))
    if d.chance(0.5):
        request.unmasked.CopyFrom(d.mode())
    return "mkdirs", request


@_weighing(18)
def _create(d: Dice) -> tuple[str, Message]:
    flags = (1, 1, 1, 1, 3, 3, 3, 2, 4, 5, 7, 0, 0x21, 0x81)
    request = pb.CreateRequestProto(
        src=d.path(),
        masked=d.mode(),
        clientName=d.one_of(WRITERS),
        createFlag=d.one_of(flags),
        createParent=d.chance(0.7),
        replication=d.one_of((1, 1, 1, 1, 2, 3)) if d.chance(0.95) else d.one_of((0, 512, 513)),
        blockSize=BLOCK_SIZE if d.chance(0.95) else d.one_of((0, 1, 1 << 40)),
    )
    if d.chance(0.5):
        request.unmasked.CopyFrom(d.mode())
    return "create", request


@_weighing(14)
def _complete(d: Dice) -> tuple[str, Message]:
    return "complete", pb.CompleteRequestProto(src=d.path(), clientName=d.one_of(WRITERS))


@_weighing(5)
def _append(d: Dice) -> tuple[str, Message]:
    request = pb.AppendRequestProto(src=d.path(), clientName=d.one_of(WRITERS))
    if d.chance(0.5):
        request.flag = d.one_of((4, 4, 0x24, 0, 1))
    return "append", request


@_weighing(1)
def _abandon_block(d: Dice) -> tuple[str, Message]:
    return "abandonBlock", pb.AbandonBlockRequestProto(
        b=d.block(), src=d.path(), holder=d.one_of(WRITERS)
    )


@_weighing(1)
def _fsync(d: Dice) -> tuple[str, Message]:
    return "fsync", pb.FsyncRequestProto(src=d.path(), client=d.one_of(WRITERS))


@_weighing(12)
def _rename(d: Dice) -> tuple[str, Message]:
    return "rename", pb.RenameRequestProto(src=d.path(), dst=d.path())


@_weighing(18)
def _rename2(d: Dice) -> tuple[str, Message]:
    src = d.path()
    dst = src if d.chance(0.05) else d.path()
    request = pb.Rename2RequestProto(src=src, dst=dst, overwriteDest=d.chance(0.6))
    if d.chance(0.2):
        request.moveToTrash = d.chance(0.7)
    return "rename2", request


@_weighing(10)
def _delete(d: Dice) -> tuple[str, Message]:
    return "delete", pb.DeleteRequestProto(src=d.path(), recursive=d.chance(0.6))


@_weighing(2)
def _concat(d: Dice) -> tuple[str, Message]:
    sources = [d.path() for _ in range(d.count(0, 2))]
    return "concat", pb.ConcatRequestProto(trg=d.path(), srcs=sources)


@_weighing(2)
def _truncate(d: Dice) -> tuple[str, Message]:
    length = d.one_of((0, 0, 0, 1, 2**64 - 1))
    return "truncate", pb.TruncateRequestProto(
        src=d.path(), newLength=length, clientName=d.one_of(WRITERS)
    )


# -- attributes -----------------------------------------------------------------------------------


@_weighing(8)
def _set_permission(d: Dice) -> tuple[str, Message]:
    return "setPermission", pb.SetPermissionRequestProto(src=d.path(), permission=d.mode())


@_weighing(8)
def _set_owner(d: Dice) -> tuple[str, Message]:
    request = pb.SetOwnerRequestProto(src=d.path())
    if d.chance(0.7):
        request.username = d.one_of(USERS)
    if d.chance(0.6):
        request.groupname = d.one_of(GROUPS)
    return "setOwner", request


@_weighing(3)
def _set_times(d: Dice) -> tuple[str, Message]:
    times = (0, 1, 1000, 123456789, NO_TIME, NO_TIME, 2**64 - 2)
    return "setTimes", pb.SetTimesRequestProto(
        src=d.path(), mtime=d.one_of(times), atime=d.one_of(times)
    )


@_weighing(3)
def _set_replication(d: Dice) -> tuple[str, Message]:
    return "setReplication", pb.SetReplicationRequestProto(
        src=d.path(), replication=d.one_of((1, 2, 3, 0, 512, 513))
    )


@_weighing(2)
def _set_storage_policy(d: Dice) -> tuple[str, Message]:
    name = d.one_of(("HOT", "HOT", "hot", "NONE", ""))
    return "setStoragePolicy", pb.SetStoragePolicyRequestProto(src=d.path(), policyName=name)


@_weighing(1)
def _unset_storage_policy(d: Dice) -> tuple[str, Message]:
    return "unsetStoragePolicy", pb.UnsetStoragePolicyRequestProto(src=d.path())


@_weighing(6)
def _set_quota(d: Dice) -> tuple[str, Message]:
    names = (LEAVE, LEAVE, RESET, RESET, 1, 2, 3, 5, 8, 0, 2**64 - 3)
    space = (LEAVE, LEAVE, LEAVE, RESET, 1, BLOCK_SIZE, 3 * BLOCK_SIZE, 0, 2**64 - 3)
    return "setQuota", pb.SetQuotaRequestProto(
        path=d.short_path(), namespaceQuota=d.one_of(names), storagespaceQuota=d.one_of(space)
    )


# -- access lists and extended attributes ---------------------------------------------------------


@_weighing(7)
def _modify_acl(d: Dice) -> tuple[str, Message]:
    return "modifyAclEntries", acl.ModifyAclEntriesRequestProto(
        src=d.path(), aclSpec=d.acl_spec(whole=False)
    )


@_weighing(5)
def _set_acl(d: Dice) -> tuple[str, Message]:
    return "setAcl", acl.SetAclRequestProto(src=d.path(), aclSpec=d.acl_spec(whole=True))


@_weighing(3)
def _remove_acl_entries(d: Dice) -> tuple[str, Message]:
    spec = [d.acl_entry(with_action=d.chance(0.1)) for _ in range(d.count(0, 3))]
    return "removeAclEntries", acl.RemoveAclEntriesRequestProto(src=d.path(), aclSpec=spec)


@_weighing(1)
def _remove_default_acl(d: Dice) -> tuple[str, Message]:
    return "removeDefaultAcl", acl.RemoveDefaultAclRequestProto(src=d.path())


@_weighing(1)
def _remove_acl(d: Dice) -> tuple[str, Message]:
    return "removeAcl", acl.RemoveAclRequestProto(src=d.path())


@_weighing(3)
def _get_acl_status(d: Dice) -> tuple[str, Message]:
    return "getAclStatus", acl.GetAclStatusRequestProto(src=d.path())


@_weighing(8)
def _set_xattr(d: Dice) -> tuple[str, Message]:
    request = xattr.SetXAttrRequestProto(src=d.path(), xAttr=d.xattr(with_value=True))
    request.flag = d.one_of((1, 1, 2, 3, 3, 3, 0))
    return "setXAttr", request


@_weighing(3)
def _remove_xattr(d: Dice) -> tuple[str, Message]:
    return "removeXAttr", xattr.RemoveXAttrRequestProto(
        src=d.path(), xAttr=d.xattr(with_value=False)
    )


@_weighing(3)
def _get_xattrs(d: Dice) -> tuple[str, Message]:
    wanted = [d.xattr(with_value=False) for _ in range(d.one_of((0, 0, 1, 1, 2)))]
    return "getXAttrs", xattr.GetXAttrsRequestProto(src=d.path(), xAttrs=wanted)


@_weighing(2)
def _list_xattrs(d: Dice) -> tuple[str, Message]:
    return "listXAttrs", xattr.ListXAttrsRequestProto(src=d.path())


# -- snapshots ------------------------------------------------------------------------------------


@_weighing(5)
def _allow_snapshot(d: Dice) -> tuple[str, Message]:
    return "allowSnapshot", pb.AllowSnapshotRequestProto(snapshotRoot=d.short_path())


@_weighing(2)
def _disallow_snapshot(d: Dice) -> tuple[str, Message]:
    return "disallowSnapshot", pb.DisallowSnapshotRequestProto(snapshotRoot=d.short_path())


@_weighing(8)
def _create_snapshot(d: Dice) -> tuple[str, Message]:
    odd = (".", "..", "a/b", "a:b", ".snapshot", "x" * 256, "日本")
    name = d.snapshot() if d.chance(0.95) else d.one_of(odd)
    return "createSnapshot", pb.CreateSnapshotRequestProto(
        snapshotRoot=d.short_path(), snapshotName=name
    )


@_weighing(3)
def _delete_snapshot(d: Dice) -> tuple[str, Message]:
    return "deleteSnapshot", pb.DeleteSnapshotRequestProto(
        snapshotRoot=d.short_path(), snapshotName=d.snapshot()
    )


@_weighing(2)
def _rename_snapshot(d: Dice) -> tuple[str, Message]:
    new = d.snapshot() if d.chance(0.9) else d.one_of(("", "a/b", ".snapshot"))
    return "renameSnapshot", pb.RenameSnapshotRequestProto(
        snapshotRoot=d.short_path(), snapshotOldName=d.snapshot(), snapshotNewName=new
    )


@_weighing(4)
def _snapshot_diff(d: Dice) -> tuple[str, Message]:
    ends = (*SNAPSHOTS, "")
    return "getSnapshotDiffReport", pb.GetSnapshotDiffReportRequestProto(
        snapshotRoot=d.short_path(), fromSnapshot=d.one_of(ends), toSnapshot=d.one_of(ends)
    )


@_weighing(4)
def _snapshot_diff_listing(d: Dice) -> tuple[str, Message]:
    ends = (*SNAPSHOTS, "")
    request = pb.GetSnapshotDiffReportListingRequestProto(
        snapshotRoot=d.short_path(), fromSnapshot=d.one_of(ends), toSnapshot=d.one_of(ends)
    )
    request.cursor.startPath = b""
    request.cursor.index = -1
    return "getSnapshotDiffReportListing", request


@_weighing(1)
def _snapshot_listing(d: Dice) -> tuple[str, Message]:
    return "getSnapshotListing", pb.GetSnapshotListingRequestProto(snapshotRoot=d.short_path())


@_weighing(1)
def _snapshottable(_: Dice) -> tuple[str, Message]:
    return "getSnapshottableDirListing", pb.GetSnapshottableDirListingRequestProto()


# -- reads ----------------------------------------------------------------------------------------


@_weighing(6)
def _get_file_info(d: Dice) -> tuple[str, Message]:
    return "getFileInfo", pb.GetFileInfoRequestProto(src=d.path())


@_weighing(2)
def _get_file_link_info(d: Dice) -> tuple[str, Message]:
    return "getFileLinkInfo", pb.GetFileLinkInfoRequestProto(src=d.path())


@_weighing(2)
def _get_located_file_info(d: Dice) -> tuple[str, Message]:
    return "getLocatedFileInfo", pb.GetLocatedFileInfoRequestProto(src=d.path())


@_weighing(1)
def _get_link_target(d: Dice) -> tuple[str, Message]:
    return "getLinkTarget", pb.GetLinkTargetRequestProto(path=d.path())


@_weighing(6)
def _get_listing(d: Dice) -> tuple[str, Message]:
    after = d.one_of(("", "", "", "a", "b", "zz", "s1", "日"))
    if d.chance(0.05):
        after = d.path()
    return "getListing", pb.GetListingRequestProto(
        src=d.path() if d.chance(0.8) else "/",
        startAfter=after.encode(),
        needLocation=d.chance(0.3),
    )


@_weighing(2)
def _get_batched_listing(d: Dice) -> tuple[str, Message]:
    paths = [d.path() for _ in range(d.count(0, 3))]
    return "getBatchedListing", pb.GetBatchedListingRequestProto(
        paths=paths, startAfter=b"", needLocation=d.chance(0.3)
    )


@_weighing(3)
def _get_block_locations(d: Dice) -> tuple[str, Message]:
    return "getBlockLocations", pb.GetBlockLocationsRequestProto(
        src=d.path(), offset=d.one_of((0, 0, 5, 2**64 - 1)), length=d.one_of((0, 10, 2**64 - 1))
    )


@_weighing(3)
def _get_content_summary(d: Dice) -> tuple[str, Message]:
    return "getContentSummary", pb.GetContentSummaryRequestProto(path=d.path())


@_weighing(3)
def _get_quota_usage(d: Dice) -> tuple[str, Message]:
    return "getQuotaUsage", pb.GetQuotaUsageRequestProto(path=d.path())


@_weighing(4)
def _check_access(d: Dice) -> tuple[str, Message]:
    return "checkAccess", pb.CheckAccessRequestProto(path=d.path(), mode=d.count(0, 7))


@_weighing(2)
def _is_file_closed(d: Dice) -> tuple[str, Message]:
    return "isFileClosed", pb.IsFileClosedRequestProto(src=d.path())


@_weighing(3)
def _recover_lease(d: Dice) -> tuple[str, Message]:
    return "recoverLease", pb.RecoverLeaseRequestProto(src=d.path(), clientName=d.one_of(WRITERS))


@_weighing(1)
def _get_preferred_block_size(d: Dice) -> tuple[str, Message]:
    return "getPreferredBlockSize", pb.GetPreferredBlockSizeRequestProto(filename=d.path())


@_weighing(1)
def _get_storage_policy(d: Dice) -> tuple[str, Message]:
    return "getStoragePolicy", pb.GetStoragePolicyRequestProto(path=d.path())


@_weighing(1)
def _get_coding_policy(d: Dice) -> tuple[str, Message]:
    return "getErasureCodingPolicy", coding.GetErasureCodingPolicyRequestProto(src=d.path())


@_weighing(1)
def _get_zone(d: Dice) -> tuple[str, Message]:
    return "getEZForPath", encryption.GetEZForPathRequestProto(src=d.path())


@_weighing(1)
def _get_enclosing_root(d: Dice) -> tuple[str, Message]:
    return "getEnclosingRoot", pb.GetEnclosingRootRequestProto(filename=d.path())


@_weighing(1)
def _list_open_files(d: Dice) -> tuple[str, Message]:
    request = pb.ListOpenFilesRequestProto(id=0, types=[pb.ALL_OPEN_FILES], path=d.path())
    return "listOpenFiles", request


@_weighing(1)
def _rest(d: Dice) -> tuple[str, Message]:
    calls: tuple[tuple[str, Message], ...] = (
        ("msync", pb.MsyncRequestProto()),
        ("setSafeMode", pb.SetSafeModeRequestProto(action=pb.SAFEMODE_GET)),
        ("renewLease", pb.RenewLeaseRequestProto(clientName=WRITERS[0])),
    )
    found: tuple[str, Message] = d.one_of(calls)
    return found


# -- caching --------------------------------------------------------------------------------------


def _pool(d: Dice) -> pb.CachePoolInfoProto:
    info = pb.CachePoolInfoProto(poolName=d.one_of(POOLS) if d.chance(0.95) else "")
    if d.chance(0.4):
        info.ownerName = d.one_of(USERS)
    if d.chance(0.3):
        info.groupName = d.one_of(GROUPS)
    if d.chance(0.4):
        info.mode = d.one_of((0o777, 0o755, 0o700, 0o000))
    if d.chance(0.3):
        info.limit = d.one_of((0, 100, 1 << 30, -1))
    if d.chance(0.2):
        info.maxRelativeExpiry = d.one_of((0, 1000, 1 << 40, -1))
    if d.chance(0.2):
        info.defaultReplication = d.one_of((1, 2, 0))
    return info


@_weighing(2)
def _add_cache_pool(d: Dice) -> tuple[str, Message]:
    return "addCachePool", pb.AddCachePoolRequestProto(info=_pool(d))


@_weighing(1)
def _modify_cache_pool(d: Dice) -> tuple[str, Message]:
    return "modifyCachePool", pb.ModifyCachePoolRequestProto(info=_pool(d))


@_weighing(1)
def _remove_cache_pool(d: Dice) -> tuple[str, Message]:
    return "removeCachePool", pb.RemoveCachePoolRequestProto(poolName=d.one_of((*POOLS, "")))


@_weighing(1)
def _list_cache_pools(d: Dice) -> tuple[str, Message]:
    return "listCachePools", pb.ListCachePoolsRequestProto(prevPoolName=d.one_of(("", "p1")))


_QUOTA_MAKERS = (_set_quota, _get_quota_usage, _get_content_summary)
_SNAPSHOT_MAKERS = (_create_snapshot,)
"""Quotas and sums do not count here what only snapshots hold, so a seed has the ones or the others:
odd seeds snapshots, even seeds quotas."""


def has_snapshots(seed: int) -> bool:
    return bool(seed % 2)


def calls(seed: int, count: int) -> Iterator[Call]:
    """`count` calls; a file that is made is often closed at once."""
    dice = Dice(seed)
    left_out = _QUOTA_MAKERS if has_snapshots(seed) else _SNAPSHOT_MAKERS
    makers = [m for weight, m in _MAKERS if m not in left_out for _ in range(weight)]
    if has_snapshots(seed):
        mode = acl.FsPermissionProto(perm=0o777)
        below = pb.MkdirsRequestProto(src=f"{SNAPSHOTTABLE}/b/c", masked=mode, createParent=True)
        yield Call(SUPERUSER, "mkdirs", below)
        allowed = pb.AllowSnapshotRequestProto(snapshotRoot=SNAPSHOTTABLE)
        yield Call(SUPERUSER, "allowSnapshot", allowed)
    made = 0
    while made < count:
        user = dice.user()
        method, request = dice.one_of(makers)(dice)
        yield Call(user, method, request)
        made += 1
        if method in ("create", "append") and dice.chance(0.6):
            request = pb.CompleteRequestProto(src=request.src, clientName=request.clientName)
            yield Call(user, "complete", request)
            made += 1
