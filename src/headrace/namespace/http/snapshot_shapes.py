"""Snapshots and storage policies as WebHDFS writes them in JSON.

Spec: JsonUtil of Hadoop 3.5, and what its WebHdfsFileSystem reads.
"""

from collections.abc import Sequence
from typing import Any

from headrace.namespace.http.json_shapes import file_status, storage_type
from headrace.namespace.ops.storage_policy import StoragePolicy
from headrace.namespace.values import (
    SnapshotDiffEntry,
    SnapshotDiffListing,
    SnapshotDiffReport,
    SnapshotStatus,
    SnapshottableDirectory,
)

_CHANGES = {"M": "MODIFY", "+": "CREATE", "-": "DELETE", "R": "RENAME"}


def difference(report: SnapshotDiffReport) -> dict[str, Any]:
    return {
        "diffList": [_change(entry) for entry in report.entries],
        "fromSnapshot": report.from_snapshot,
        "snapshotRoot": report.root,
        "toSnapshot": report.to_snapshot,
    }


def _change(entry: SnapshotDiffEntry) -> dict[str, Any]:
    told = {"type": _CHANGES[entry.kind], "sourcePath": entry.path}
    if entry.target_path:
        told["targetPath"] = entry.target_path
    return told


def difference_part(part: SnapshotDiffListing) -> dict[str, Any]:
    """A rename is told where it began: a reference among the deletions, with its target."""
    lists: dict[str, list[dict[str, Any]]] = {"M": [], "+": [], "-": []}
    for entry in part.entries:
        told: dict[str, Any] = {
            "dirId": entry.directory_id or entry.inode_id,
            "fileId": entry.inode_id,
            "isReference": entry.kind == "R" or (entry.kind == "M" and entry.directory_id != 0),
            "sourcePath": entry.path,
        }
        if entry.target_path:
            told["targetPath"] = entry.target_path
        lists[entry.kind if entry.kind in lists else "-"].append(told)
    path, index = part.cursor or ("", -1)
    return {
        "createList": lists["+"],
        "deleteList": lists["-"],
        "isFromEarlier": part.is_from_earlier,
        "lastIndex": index,
        "lastPath": path,
        "modifyList": lists["M"],
    }


def snapshottable(found: Sequence[SnapshottableDirectory]) -> list[dict[str, Any]] | None:
    if not found:
        return None
    return [
        {
            "dirStatus": file_status(one.status),
            "parentFullPath": one.parent_path,
            "snapshotNumber": one.snapshot_number,
            "snapshotQuota": one.snapshot_quota,
        }
        for one in found
    ]


def snapshots(found: Sequence[SnapshotStatus]) -> list[dict[str, Any]]:
    return [
        {
            "deletionStatus": "DELETED" if one.is_deleted else "ACTIVE",
            "dirStatus": file_status(one.status),
            "fullPath": f"{one.parent_path}/{one.status.path}",
            "snapshotID": one.snapshot_id,
        }
        for one in found
    ]


def storage_policy(policy: StoragePolicy) -> dict[str, Any]:
    return {
        "copyOnCreateFile": False,
        "creationFallbacks": [storage_type(one) for one in policy.creation_fallbacks],
        "id": policy.policy_id,
        "name": policy.name,
        "replicationFallbacks": [storage_type(one) for one in policy.replication_fallbacks],
        "storageTypes": [storage_type(one) for one in policy.storage_types],
    }
