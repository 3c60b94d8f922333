"""ClientNamenodeProtocol, what asks and changes nothing: status, listings, summaries."""

from headrace.namespace import requests
from headrace.namespace.ops.storage_policy import StoragePolicy
from headrace.namespace.rpc.shapes import status_message, unsigned
from headrace.namespace.rpc.translation import Translation
from headrace.namespace.values import ContentSummary, DirectoryListing, FileStatus, QuotaUsage
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import encryption_pb2 as encryption
from headrace.wire.hadoop.protos import erasure_coding_pb2 as coding
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.rpc_frames import wrapped


def _info(status: FileStatus | None) -> bytes:
    """GetFileInfoResponseProto, and the two others that have a status as their one field."""
    return b"" if status is None else wrapped(status_message(status))


def _listing(listing: DirectoryListing | None) -> pb.GetListingResponseProto:
    if listing is None:
        return pb.GetListingResponseProto()
    return pb.GetListingResponseProto(
        dirList=hdfs.DirectoryListingProto(
            partialListing=[status_message(entry) for entry in listing.entries],
            remainingEntries=listing.remaining_count,
        )
    )


def _summary(summary: ContentSummary) -> pb.GetContentSummaryResponseProto:
    return pb.GetContentSummaryResponseProto(
        summary=hdfs.ContentSummaryProto(
            length=summary.length,
            fileCount=summary.file_count,
            directoryCount=summary.directory_count,
            quota=unsigned(summary.quota),
            spaceConsumed=summary.space_consumed,
            spaceQuota=unsigned(summary.space_quota),
            snapshotLength=summary.snapshot_length,
            snapshotFileCount=summary.snapshot_file_count,
            snapshotDirectoryCount=summary.snapshot_directory_count,
            snapshotSpaceConsumed=summary.snapshot_space_consumed,
            erasureCodingPolicy="" if summary.directory_count else "Replicated",
        )
    )


def _usage(usage: QuotaUsage) -> pb.GetQuotaUsageResponseProto:
    return pb.GetQuotaUsageResponseProto(
        usage=hdfs.QuotaUsageProto(
            fileAndDirectoryCount=usage.file_and_directory_count,
            quota=unsigned(usage.quota),
            spaceConsumed=usage.space_consumed,
            spaceQuota=unsigned(usage.space_quota),
        )
    )


def policy_message(policy: StoragePolicy) -> hdfs.BlockStoragePolicyProto:
    message = hdfs.BlockStoragePolicyProto(
        policyId=policy.policy_id, name=policy.name, creationPolicy=_types(policy.storage_types)
    )
    if policy.creation_fallbacks:
        message.creationFallbackPolicy.CopyFrom(_types(policy.creation_fallbacks))
    if policy.replication_fallbacks:
        message.replicationFallbackPolicy.CopyFrom(_types(policy.replication_fallbacks))
    return message


def _types(types: tuple[int, ...]) -> hdfs.StorageTypesProto:
    return hdfs.StorageTypesProto(storageTypes=types)  # type: ignore[arg-type]


READS: dict[str, Translation] = {
    "getFileInfo": Translation(lambda m: requests.GetFileInfo(m.src), _info),
    "getEZForPath": Translation(
        lambda m: requests.GetEncryptionZone(m.src),
        lambda _: encryption.GetEZForPathResponseProto(),
    ),
    "getFileLinkInfo": Translation(lambda m: requests.GetFileLinkInfo(m.src), _info),
    "getLocatedFileInfo": Translation(
        lambda m: requests.GetLocatedFileInfo(m.src, m.needBlockToken), _info
    ),
    "getListing": Translation(
        lambda m: requests.GetListing(m.src, m.startAfter, m.needLocation),
        _listing,
    ),
    "getContentSummary": Translation(lambda m: requests.GetContentSummary(m.path), _summary),
    "getQuotaUsage": Translation(lambda m: requests.GetQuotaUsage(m.path), _usage),
    "getPreferredBlockSize": Translation(
        lambda m: requests.GetPreferredBlockSize(m.filename),
        lambda size: pb.GetPreferredBlockSizeResponseProto(bsize=size),
    ),
    "getLinkTarget": Translation(
        lambda m: requests.GetLinkTarget(m.path),
        lambda target: pb.GetLinkTargetResponseProto(targetPath=target),
    ),
    "checkAccess": Translation(
        lambda m: requests.CheckAccess(m.path, m.mode),
        lambda _: pb.CheckAccessResponseProto(),
    ),
    "getStoragePolicy": Translation(
        lambda m: requests.GetStoragePolicy(m.path),
        lambda policy: pb.GetStoragePolicyResponseProto(storagePolicy=policy_message(policy)),
    ),
    "getErasureCodingPolicy": Translation(
        lambda m: requests.GetErasureCodingPolicy(m.src),
        lambda _: coding.GetErasureCodingPolicyResponseProto(),
    ),
    "getEnclosingRoot": Translation(
        lambda m: requests.GetEnclosingRoot(m.filename),
        lambda root: pb.GetEnclosingRootResponseProto(enclosingRootPath=root),
    ),
}
