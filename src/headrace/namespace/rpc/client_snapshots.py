"""ClientNamenodeProtocol, snapshots: made, listed, compared."""

from collections.abc import Sequence

from headrace.namespace import requests
from headrace.namespace.rpc.shapes import status_message
from headrace.namespace.rpc.translation import Translation
from headrace.namespace.values import SnapshotDiffReport, SnapshotStatus, SnapshottableDirectory
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
}
