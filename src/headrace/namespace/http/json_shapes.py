"""Values of the namespace as WebHDFS writes them in JSON, and refusals likewise."""

import json
from typing import Any

from headrace.base.web import JSON, WebResponse
from headrace.namespace.datanodes import DatanodeDescriptor
from headrace.namespace.values import (
    AclEntry,
    AclStatus,
    ContentSummary,
    FileStatus,
    LocatedBlock,
    LocatedBlocks,
    QuotaUsage,
)
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.web_refusals import web_body, web_status

_KINDS = {1: "DIRECTORY", 2: "FILE", 3: "SYMLINK"}
_STORAGE_TYPES = {1: "DISK", 2: "SSD", 3: "ARCHIVE", 4: "RAM_DISK", 5: "PROVIDED", 6: "NVDIMM"}
_ACL_TYPES = ("user", "group", "mask", "other")


def answer(value: Any, status: int = 200) -> WebResponse:
    return WebResponse(status, json.dumps(value, separators=(",", ":")).encode(), JSON)


def refusal(error: RemoteError) -> WebResponse:
    return WebResponse(web_status(error), web_body(error), JSON)


def storage_type(number: int) -> str:
    return _STORAGE_TYPES.get(number, "DISK")


def octal(mode: int) -> str:
    return f"{mode:o}"


def file_status(status: FileStatus, suffix: str | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "accessTime": status.access_time_ms,
        "blockSize": status.block_size,
        "childrenNum": max(0, status.children_count),
        "fileId": status.inode_id,
        "group": status.group,
        "length": status.length,
        "modificationTime": status.modification_time_ms,
        "owner": status.owner,
        "pathSuffix": status.path if suffix is None else suffix,
        "permission": octal(status.mode),
        "replication": status.replication,
        "storagePolicy": status.storage_policy,
        "type": _KINDS[status.kind],
    }
    if status.symlink:
        shown["symlink"] = status.symlink
    if status.has_acl:
        shown["aclBit"] = True
    if status.is_snapshottable:
        shown["snapshotEnabled"] = True
    return shown


def content_summary(summary: ContentSummary) -> dict[str, Any]:
    return {
        "directoryCount": summary.directory_count,
        "ecPolicy": "" if summary.directory_count else "Replicated",
        "fileCount": summary.file_count,
        "length": summary.length,
        "quota": summary.quota,
        "snapshotDirectoryCount": summary.snapshot_directory_count,
        "snapshotFileCount": summary.snapshot_file_count,
        "snapshotLength": summary.snapshot_length,
        "snapshotSpaceConsumed": summary.snapshot_space_consumed,
        "spaceConsumed": summary.space_consumed,
        "spaceQuota": summary.space_quota,
        "typeQuota": {},
    }


def quota_usage(usage: QuotaUsage) -> dict[str, Any]:
    return {
        "fileAndDirectoryCount": usage.file_and_directory_count,
        "quota": usage.quota,
        "spaceConsumed": usage.space_consumed,
        "spaceQuota": usage.space_quota,
        "typeQuota": {},
    }


def acl_text(entry: AclEntry) -> str:
    """`default:user:anna:r-x`, as aclspecs are written."""
    bits = "".join(
        letter if entry.permission & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1))
    )
    scope = "default:" if entry.scope else ""
    return f"{scope}{_ACL_TYPES[entry.type]}:{entry.name}:{bits}"


def parse_acl(spec: str, with_permission: bool) -> tuple[AclEntry, ...]:
    entries = []
    for text in filter(None, spec.split(",")):
        words = text.split(":")
        scope = 0
        if words[0].lower() == "default":
            scope = 1
            words = words[1:]
        words += [""] * (3 - len(words))
        kind = words[0].lower()
        permission = 0
        if kind not in _ACL_TYPES or len(words) > 3:
            raise RemoteError(java.HADOOP_ILLEGAL_ARGUMENT, f"Invalid <aclSpec> : {spec}")
        if with_permission:
            if len(words[2]) != 3 or set(words[2]) - set("rwx-"):
                raise RemoteError(
                    java.HADOOP_ILLEGAL_ARGUMENT, f"Invalid permission in <aclSpec> : {spec}"
                )
            permission = sum(
                bit for letter, bit in (("r", 4), ("w", 2), ("x", 1)) if letter in words[2]
            )
        entries.append(AclEntry(_ACL_TYPES.index(kind), scope, permission, words[1]))
    return tuple(entries)


def acl_status(status: AclStatus) -> dict[str, Any]:
    return {
        "entries": [acl_text(entry) for entry in status.entries],
        "group": status.group,
        "owner": status.owner,
        "permission": octal((status.mode or 0) & 0o777),
        "stickyBit": status.sticky,
    }


def _datanode(node: DatanodeDescriptor) -> dict[str, Any]:
    identity = node.identity
    return {
        "adminState": node.admin_state.name,
        "hostName": identity.host_name,
        "infoPort": identity.info_port,
        "infoSecurePort": identity.info_secure_port,
        "ipAddr": identity.ip_address,
        "ipcPort": identity.ipc_port,
        "name": f"{identity.ip_address}:{identity.xfer_port}",
        "networkLocation": node.rack,
        "storageID": identity.uuid,
        "xferPort": identity.xfer_port,
    }


def _located_block(located: LocatedBlock) -> dict[str, Any]:
    block = located.block
    return {
        "block": {
            "blockId": block.block_id,
            "blockPoolId": block.pool_id,
            "generationStamp": block.generation_stamp,
            "numBytes": block.num_bytes,
        },
        "blockToken": {"urlString": "AAAAAA"},
        "cachedLocations": [_datanode(storage.datanode) for storage in located.cached],
        "isCorrupt": located.is_corrupt,
        "locations": [_datanode(storage.datanode) for storage in located.locations],
        "startOffset": located.offset,
        "storageTypes": [storage_type(storage.storage_type) for storage in located.locations],
    }


def located_blocks(located: LocatedBlocks) -> dict[str, Any]:
    last = located.last_block
    return {
        "fileLength": located.file_length,
        "isLastBlockComplete": located.is_last_block_complete,
        "isUnderConstruction": located.is_under_construction,
        "lastLocatedBlock": None if last is None else _located_block(last),
        "locatedBlocks": [_located_block(block) for block in located.blocks],
    }


def block_locations(located: LocatedBlocks) -> list[dict[str, Any]]:
    """GETFILEBLOCKLOCATIONS: what FileSystem.getFileBlockLocations tells."""
    return [
        {
            "cachedHosts": [storage.datanode.identity.host_name for storage in block.cached],
            "corrupt": block.is_corrupt,
            "hosts": [storage.datanode.identity.host_name for storage in block.locations],
            "length": block.block.num_bytes,
            "names": [storage.datanode.name for storage in block.locations],
            "offset": block.offset,
            "storageTypes": [storage_type(storage.storage_type) for storage in block.locations],
            "topologyPaths": [
                f"{storage.datanode.rack}/{storage.datanode.name}" for storage in block.locations
            ],
        }
        for block in located.blocks
    ]
