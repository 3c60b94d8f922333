"""What hdfs-native can't ask a NameNode: attributes, snapshots, quotas, reports, and more.

Owns: plain Python in and out over `hadoop_rpc`. Must not know: how files are moved (hdfs-native's),
what is printed. Every refusal is a RemoteError with Java's class name, a missing file too.
"""

import getpass
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from headrace.base.errors import UsageError
from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import acl_pb2 as acl
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import datanode_admin_pb2 as admin
from headrace.wire.hadoop.protos import file_set_pb2 as sets
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import hdfs_server_pb2 as server
from headrace.wire.hadoop.protos import namenode_pb2 as namenode
from headrace.wire.hadoop.protos import xattr_pb2 as xattrs
from headrace.wire.hadoop.rpc_calls import RpcUser
from headrace.wire.hadoop.rpc_protocols import DATANODE_ADMIN, FILE_SET, NAMENODE

DEFAULT_PORT = 8020
_UNCHANGED = 2**63 - 1
QUOTA_MAX = _UNCHANGED - 1
_NO_QUOTA = 2**64 - 1
_LIVE = pb.GetDatanodeReportRequestProto(type=pb.LIVE)
_XATTR_NAMESPACES = ("user", "trusted", "security", "system", "raw")


@dataclass(frozen=True, slots=True)
class DatanodeReport:
    name: str
    host: str
    uuid: str
    state: str
    capacity: int
    used: int
    remaining: int
    blocks: int
    last_contact_ms: int
    rack: str
    http: str

    @property
    def address(self) -> str:
        return self.name.rpartition(":")[0]

    @property
    def port(self) -> str:
        return self.name.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class AdminProgress:
    name: str
    state: str
    blocks_waiting: int | None
    """Blocks that lack a replica elsewhere; None while they are being counted."""


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """`kind`: M modified, + made, - deleted, R renamed."""

    kind: str
    path: str
    target: str = ""


def parse_url(url: str) -> tuple[str, int]:
    """Host and port of `hdfs://host:port`."""
    parts = urlsplit(url if "://" in url else f"hdfs://{url}")
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        port = 0
    if parts.scheme != "hdfs" or not parts.hostname or not port:
        raise UsageError(f"{url!r} is not hdfs://HOST:PORT")
    return parts.hostname, port


def user_name() -> str:
    """As Hadoop's clients decide it: HADOOP_USER_NAME, else the login name."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


class NameNodeClient:
    def __init__(
        self,
        url: str,
        user: RpcUser | str | None = None,
        *,
        timeout_ms: int = 30_000,
        attempts: int = 3,
    ) -> None:
        host, port = parse_url(url)
        user = user or user_name()
        self.user = user.effective if isinstance(user, RpcUser) else user
        self._rpc = BlockingRpcClient(host, port, user, timeout_ms=timeout_ms, attempts=attempts)

    def __enter__(self) -> "NameNodeClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._rpc.close()

    @property
    def where(self) -> str:
        return self._rpc.where

    # -- files ---------------------------------------------------------------------------

    def exists(self, path: str) -> bool:
        return self._status(path).HasField("fs")

    def is_directory(self, path: str) -> bool:
        status = self._status(path)
        return status.HasField("fs") and status.fs.fileType == hdfs.HdfsFileStatusProto.IS_DIR

    def _status(self, path: str) -> pb.GetFileLinkInfoResponseProto:
        """Of what is there itself, if it is a symlink."""
        status: pb.GetFileLinkInfoResponseProto = self._rpc.call(
            "getFileLinkInfo", pb.GetFileLinkInfoRequestProto(src=path)
        )
        return status

    def may(self, path: str, *, read: bool, write: bool) -> bool:
        """False too where nothing is."""
        mode: Any = read * acl.AclEntryProto.READ | write * acl.AclEntryProto.WRITE
        if not mode:
            return True
        try:
            self._rpc.call("checkAccess", pb.CheckAccessRequestProto(path=path, mode=mode))
        except RemoteError as refusal:
            if refusal.class_name in (
                java.ACCESS_CONTROL,
                java.FILE_NOT_FOUND,
                java.PARENT_NOT_DIRECTORY,
            ):
                return False
            raise
        return True

    def names_in(self, path: str) -> Iterator[str]:
        """What is in a directory; nothing where none is."""
        return (entry.path.decode() for entry in self._listing(path))

    def _listing(self, path: str) -> Iterator[hdfs.HdfsFileStatusProto]:
        after = b""
        while True:
            request = pb.GetListingRequestProto(src=path, startAfter=after, needLocation=False)
            part = self._rpc.call("getListing", request).dirList
            for entry in part.partialListing:
                yield entry
                after = entry.path
            if not part.remainingEntries:
                return

    def has_acl(self, path: str) -> bool:
        status = self._rpc.call("getFileInfo", pb.GetFileInfoRequestProto(src=path))
        return bool(status.fs.flags & hdfs.HdfsFileStatusProto.HAS_ACL)

    def names_with_acl(self, path: str) -> set[str]:
        """Of what is in a directory."""
        return {
            entry.path.decode()
            for entry in self._listing(path)
            if entry.flags & hdfs.HdfsFileStatusProto.HAS_ACL
        }

    def mkdirs(self, path: str, mode: int) -> None:
        request = pb.MkdirsRequestProto(src=path, createParent=True)
        request.masked.perm = mode
        self._rpc.call("mkdirs", request)

    def rename(self, path: str, target: str, *, to_trash: bool = False) -> None:
        """To a name that is free. `to_trash`: only what the caller might delete."""
        request = pb.Rename2RequestProto(
            src=path, dst=target, overwriteDest=False, moveToTrash=to_trash
        )
        self._rpc.call("rename2", request)

    def delete(self, path: str) -> bool:
        """With all that is below it; False: it was not there."""
        request = pb.DeleteRequestProto(src=path, recursive=True)
        return bool(self._rpc.call("delete", request).result)

    def truncate(self, path: str, length: int) -> bool:
        """False while the last block is still being cut."""
        request = pb.TruncateRequestProto(
            src=path, newLength=length, clientName=f"headrace-{os.getpid()}"
        )
        return bool(self._rpc.call("truncate", request).result)

    def concat(self, target: str, sources: Sequence[str]) -> None:
        self._rpc.call("concat", pb.ConcatRequestProto(trg=target, srcs=sources))

    def is_closed(self, path: str) -> bool:
        return bool(self._rpc.call("isFileClosed", pb.IsFileClosedRequestProto(src=path)).result)

    def recover_lease(self, path: str) -> bool:
        request = pb.RecoverLeaseRequestProto(src=path, clientName=f"headrace-{os.getpid()}")
        return bool(self._rpc.call("recoverLease", request).result)

    def rename_set(self, renames: Sequence[tuple[str, str]], deletes: Sequence[str] = ()) -> None:
        """All of them or none: ours alone, Apache's NameNode refuses it as unknown."""
        request = sets.RenameSetRequestProto(
            renames=[sets.RenameProto(src=src, dst=dst) for src, dst in renames],
            deletes=deletes,
        )
        self._rpc.call("renameSet", request, FILE_SET)

    def block_size(self) -> int:
        """Of new files, unless their writer says otherwise; in bytes."""
        return int(self._defaults().blockSize)

    def trash_interval_min(self) -> int:
        """Minutes that the NameNode leaves files in the trash; 0: it has none."""
        return int(self._defaults().trashInterval)

    def _defaults(self) -> hdfs.FsServerDefaultsProto:
        answer = self._rpc.call("getServerDefaults", pb.GetServerDefaultsRequestProto())
        defaults: hdfs.FsServerDefaultsProto = answer.serverDefaults
        return defaults

    def block_locations(self, path: str) -> hdfs.LocatedBlocksProto:
        request = pb.GetBlockLocationsRequestProto(src=path, offset=0, length=_UNCHANGED)
        located: hdfs.LocatedBlocksProto = self._rpc.call("getBlockLocations", request).locations
        return located

    def create_symlink(self, target: str, link: str) -> None:
        request = pb.CreateSymlinkRequestProto(target=target, link=link, createParent=False)
        request.dirPerm.perm = 0o755
        self._rpc.call("createSymlink", request)

    # -- extended attributes ---------------------------------------------------------------

    def xattrs(self, path: str) -> dict[str, bytes]:
        answer = self._rpc.call("getXAttrs", xattrs.GetXAttrsRequestProto(src=path))
        return {
            f"{_XATTR_NAMESPACES[found.namespace]}.{found.name}": found.value
            for found in answer.xAttrs
        }

    def set_xattr(self, path: str, name: str, value: bytes) -> None:
        request = xattrs.SetXAttrRequestProto(src=path, xAttr=_xattr(name, value), flag=3)
        self._rpc.call("setXAttr", request)

    def remove_xattr(self, path: str, name: str) -> None:
        request = xattrs.RemoveXAttrRequestProto(src=path, xAttr=_xattr(name, b""))
        self._rpc.call("removeXAttr", request)

    # -- snapshots -------------------------------------------------------------------------

    def allow_snapshot(self, path: str) -> None:
        self._rpc.call("allowSnapshot", pb.AllowSnapshotRequestProto(snapshotRoot=path))

    def disallow_snapshot(self, path: str) -> None:
        self._rpc.call("disallowSnapshot", pb.DisallowSnapshotRequestProto(snapshotRoot=path))

    def create_snapshot(self, path: str, name: str = "") -> str:
        request = pb.CreateSnapshotRequestProto(snapshotRoot=path)
        if name:
            request.snapshotName = name
        return str(self._rpc.call("createSnapshot", request).snapshotPath)

    def delete_snapshot(self, path: str, name: str) -> None:
        request = pb.DeleteSnapshotRequestProto(snapshotRoot=path, snapshotName=name)
        self._rpc.call("deleteSnapshot", request)

    def rename_snapshot(self, path: str, old_name: str, new_name: str) -> None:
        request = pb.RenameSnapshotRequestProto(
            snapshotRoot=path, snapshotOldName=old_name, snapshotNewName=new_name
        )
        self._rpc.call("renameSnapshot", request)

    def snapshots(self, path: str) -> list[tuple[str, int]]:
        """Names of a directory's snapshots and when each was made, in milliseconds."""
        request = pb.GetSnapshotListingRequestProto(snapshotRoot=path)
        listing = self._rpc.call("getSnapshotListing", request).snapshotList.snapshotListing
        return [
            (one.dirStatus.path.decode(), int(one.dirStatus.modification_time)) for one in listing
        ]

    def snapshottable(self) -> list[str]:
        request = pb.GetSnapshottableDirListingRequestProto()
        found = self._rpc.call("getSnapshottableDirListing", request).snapshottableDirList
        return [
            f"{one.parent_fullpath.decode().rstrip('/')}/{one.dirStatus.path.decode()}"
            for one in found.snapshottableDirListing
        ]

    def snapshot_diff(self, path: str, older: str, newer: str = "") -> list[SnapshotChange]:
        """What changed between two snapshots; an empty name is the present."""
        request = pb.GetSnapshotDiffReportRequestProto(
            snapshotRoot=path, fromSnapshot=older, toSnapshot=newer
        )
        report = self._rpc.call("getSnapshotDiffReport", request).diffReport
        return [
            SnapshotChange(one.modificationLabel, one.fullpath.decode(), one.targetPath.decode())
            for one in report.diffReportEntries
        ]

    # -- quotas ----------------------------------------------------------------------------

    def set_quota(self, path: str, *, names: int | None = None, space: int | None = None) -> None:
        """None leaves a quota as it is, -1 takes it away: from the root, which always has one for
        names in HDFS, by the largest there is."""
        if names is not None and names < 0 and not path.strip("/"):
            names = QUOTA_MAX
        request = pb.SetQuotaRequestProto(
            path=path, namespaceQuota=_quota(names), storagespaceQuota=_quota(space)
        )
        self._rpc.call("setQuota", request)

    def quota(self, path: str) -> dict[str, int]:
        """-1: there is none."""
        usage = self._rpc.call("getQuotaUsage", pb.GetQuotaUsageRequestProto(path=path)).usage
        return {
            "names_used": usage.fileAndDirectoryCount,
            "names_quota": _limit(usage.quota),
            "space_used": usage.spaceConsumed,
            "space_quota": _limit(usage.spaceQuota),
        }

    # -- the cluster -------------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        stats = self._rpc.call("getFsStats", pb.GetFsStatusRequestProto())
        return {field.name: value for field, value in stats.ListFields()}

    def datanodes(self, kind: str = "ALL") -> list[DatanodeReport]:
        request = pb.GetDatanodeReportRequestProto(type=kind)
        return [_datanode(info) for info in self._rpc.call("getDatanodeReport", request).di]

    def datanode_infos(self) -> list[hdfs.DatanodeInfoProto]:
        """The live ones, as the NameNode tells them."""
        return list(self._rpc.call("getDatanodeReport", _LIVE).di)

    def block_pool(self) -> str:
        request = server.VersionRequestProto()
        return str(self._rpc.call("versionRequest", request, NAMENODE).info.blockPoolID)

    def blocks_of(
        self, node: hdfs.DatanodeIDProto, size: int
    ) -> list[server.BlockWithLocationsProto]:
        """Some blocks of a DataNode, together about `size` bytes; others at every call."""
        request = namenode.GetBlocksRequestProto(datanode=node, size=size, minBlockSize=1)
        return list(self._rpc.call("getBlocks", request, NAMENODE).blocks.blocks)

    def set_admin_state(self, node: str, wish: str, until_ms: int = 0) -> list[str]:
        """IN_SERVICE, DECOMMISSIONED or IN_MAINTENANCE; the names of those it is about."""
        request = admin.SetAdminStateRequestProto(
            node=node,
            wish=wish,
            maintenanceExpireTimeMs=until_ms,
        )
        return list(self._rpc.call("setAdminState", request, DATANODE_ADMIN).nodes)

    def admin_progress(self, node: str) -> list[AdminProgress]:
        request = admin.GetAdminProgressRequestProto(node=node)
        answer = self._rpc.call("getAdminProgress", request, DATANODE_ADMIN)
        return [
            AdminProgress(
                one.node, one.state, one.blocksWaiting if one.HasField("blocksWaiting") else None
            )
            for one in answer.nodes
        ]

    def safe_mode(self, action: str = "get") -> bool:
        """get, enter, leave or force_exit; True: it is on."""
        request = pb.SetSafeModeRequestProto(action=f"SAFEMODE_{action.upper()}")
        return bool(self._rpc.call("setSafeMode", request).result)

    def open_files(self, path: str = "/") -> Iterator[tuple[str, str, str]]:
        """(path, client, host) of every file that is being written."""
        after = 0
        while True:
            request = pb.ListOpenFilesRequestProto(id=after, path=path, types=[pb.ALL_OPEN_FILES])
            answer = self._rpc.call("listOpenFiles", request)
            for entry in answer.entries:
                yield entry.path, entry.clientName, entry.clientMachine
                after = entry.id
            if not answer.hasMore:
                return

    def call(self, method: str, request: Any) -> Any:
        """Any other method of ClientNamenodeProtocol."""
        return self._rpc.call(method, request)


def _xattr(name: str, value: bytes) -> xattrs.XAttrProto:
    namespace, dot, rest = name.partition(".")
    if not dot or namespace not in _XATTR_NAMESPACES:
        raise UsageError(f"{name!r}: an attribute's name begins with user., trusted. or the like")
    return xattrs.XAttrProto(namespace=namespace.upper(), name=rest, value=value)


def _quota(value: int | None) -> int:
    if value is None:
        return _UNCHANGED
    return _NO_QUOTA if value < 0 else value


def _limit(value: int) -> int:
    """What nobody reaches is no limit."""
    return -1 if value >= QUOTA_MAX else value


def _datanode(info: hdfs.DatanodeInfoProto) -> DatanodeReport:
    return DatanodeReport(
        name=f"{info.id.ipAddr}:{info.id.xferPort}",
        host=info.id.hostName,
        uuid=info.id.datanodeUuid,
        state=hdfs.DatanodeInfoProto.AdminState.Name(info.adminState).lower(),
        capacity=info.capacity,
        used=info.dfsUsed,
        remaining=info.remaining,
        blocks=info.numBlocks,
        last_contact_ms=info.lastUpdate,
        rack=info.location,
        http=f"{info.id.ipAddr}:{info.id.infoPort}",
    )
