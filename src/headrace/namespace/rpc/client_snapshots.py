"""ClientNamenodeProtocol, snapshots: made, listed, compared."""

from collections.abc import Sequence

from headrace.namespace import requests
from headrace.namespace.rpc.shapes import status_message
from headrace.namespace.rpc.translation import Translation
from headrace.namespace.values import (
    SnapshotDiffListing,
    SnapshotDiffReport,
    SnapshotStatus,
    SnapshottableDirectory,
)
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs


def _directories(
    found: Sequence[SnapshottableDirectory],
) -> pb.GetSnapshottableDirListingResponseProto:
    if not found:
        return pb.GetSnapshottableDirListingResponseProto()
    return pb.GetSnapshottableDirListingResponseProto(
        snapshottableDirList=hdfs.SnapshottableDirectoryListingProto(
            snapshottableDirListing=[
                hdfs.SnapshottableDirectoryStatusProto(
                    dirStatus=status_message(one.status),
                    snapshot_quota=one.snapshot_quota,
                    snapshot_number=one.snapshot_number,
                    parent_fullpath=one.parent_path.encode(),
                )
                for one in found
            ]
        )
    )


def _snapshots(found: Sequence[SnapshotStatus]) -> pb.GetSnapshotListingResponseProto:
    return pb.GetSnapshotListingResponseProto(
        snapshotList=hdfs.SnapshotListingProto(
            snapshotListing=[
                hdfs.SnapshotStatusProto(
                    dirStatus=status_message(one.status),
                    snapshotID=one.snapshot_id,
                    parent_fullpath=one.parent_path.removesuffix("/.snapshot").encode(),
                    isDeleted=one.is_deleted,
                )
                for one in found
            ]
        )
    )


def _difference(report: SnapshotDiffReport) -> pb.GetSnapshotDiffReportResponseProto:
    entries = []
    for entry in report.entries:
        message = hdfs.SnapshotDiffReportEntryProto(
            fullpath=entry.path.encode(), modificationLabel=entry.kind
        )
        if entry.target_path:
            message.targetPath = entry.target_path.encode()
        entries.append(message)
    return pb.GetSnapshotDiffReportResponseProto(
        diffReport=hdfs.SnapshotDiffReportProto(
            snapshotRoot=report.root,
            fromSnapshot=report.from_snapshot,
            toSnapshot=report.to_snapshot,
            diffReportEntries=entries,
        )
    )


def _difference_part(part: SnapshotDiffListing) -> pb.GetSnapshotDiffReportListingResponseProto:
    """A rename is told where it began: a reference among the deletions, with its target."""
    listing = hdfs.SnapshotDiffReportListingProto(isFromEarlier=part.is_from_earlier)
    lists = {"M": listing.modifiedEntries, "+": listing.createdEntries}
    for entry in part.entries:
        lists.get(entry.kind, listing.deletedEntries).add(
            fullpath=entry.path.encode(),
            targetPath=entry.target_path.encode(),
            dirId=entry.directory_id or entry.inode_id,
            fileId=entry.inode_id,
            isReference=entry.kind == "R" or (entry.kind == "M" and entry.directory_id != 0),
        )
    path, index = part.cursor or ("", -1)
    listing.cursor.startPath = path.encode()
    listing.cursor.index = index
    return pb.GetSnapshotDiffReportListingResponseProto(diffReport=listing)


SNAPSHOTS: dict[str, Translation] = {
    "allowSnapshot": Translation(
        lambda m: requests.AllowSnapshot(m.snapshotRoot),
        lambda _: pb.AllowSnapshotResponseProto(),
    ),
    "disallowSnapshot": Translation(
        lambda m: requests.DisallowSnapshot(m.snapshotRoot),
        lambda _: pb.DisallowSnapshotResponseProto(),
    ),
    "createSnapshot": Translation(
        lambda m: requests.CreateSnapshot(m.snapshotRoot, m.snapshotName),
        lambda path: pb.CreateSnapshotResponseProto(snapshotPath=path),
    ),
    "deleteSnapshot": Translation(
        lambda m: requests.DeleteSnapshot(m.snapshotRoot, m.snapshotName),
        lambda _: pb.DeleteSnapshotResponseProto(),
    ),
    "renameSnapshot": Translation(
        lambda m: requests.RenameSnapshot(m.snapshotRoot, m.snapshotOldName, m.snapshotNewName),
        lambda _: pb.RenameSnapshotResponseProto(),
    ),
    "getSnapshottableDirListing": Translation(
        lambda _: requests.GetSnapshottableDirListing(),
        _directories,
    ),
    "getSnapshotListing": Translation(
        lambda m: requests.GetSnapshotListing(m.snapshotRoot),
        _snapshots,
    ),
    "getSnapshotDiffReport": Translation(
        lambda m: requests.GetSnapshotDiffReport(m.snapshotRoot, m.fromSnapshot, m.toSnapshot),
        _difference,
    ),
    "getSnapshotDiffReportListing": Translation(
        lambda m: requests.GetSnapshotDiffReportListing(
            m.snapshotRoot,
            m.fromSnapshot,
            m.toSnapshot,
            m.cursor.startPath.decode(errors="replace"),
            m.cursor.index,
        ),
        _difference_part,
    ),
}
