"""ClientNamenodeProtocol, the tree: what makes, moves, removes and marks files and directories."""

from typing import Any

from headrace.namespace import requests
from headrace.namespace.rpc.shapes import signed, signed_int
from headrace.namespace.rpc.translation import Translation
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos.file_set_pb2 import RenameSetResponseProto


def unmasked_of(message: Any) -> int | None:
    return message.unmasked.perm if message.HasField("unmasked") else None


def encoded_bool(value: bool) -> bytes:
    """A response that has `result` as its field 1 and nothing else."""
    return b"\x08\x01" if value else b"\x08\x00"


TREE: dict[str, Translation] = {
    "mkdirs": Translation(
        lambda m: requests.Mkdirs(m.src, m.masked.perm, m.createParent, unmasked_of(m)),
        encoded_bool,
    ),
    "delete": Translation(
        lambda m: requests.Delete(m.src, m.recursive),
        encoded_bool,
    ),
    "rename": Translation(
        lambda m: requests.Rename(m.src, m.dst),
        encoded_bool,
    ),
    "rename2": Translation(
        lambda m: requests.Rename2(m.src, m.dst, m.overwriteDest, m.moveToTrash),
        lambda _: b"",
    ),
    "concat": Translation(
        lambda m: requests.Concat(m.trg, tuple(m.srcs)),
        lambda _: pb.ConcatResponseProto(),
    ),
    "truncate": Translation(
        lambda m: requests.Truncate(m.src, signed(m.newLength), m.clientName),
        lambda done: pb.TruncateResponseProto(result=done),
    ),
    "createSymlink": Translation(
        lambda m: requests.CreateSymlink(m.target, m.link, m.dirPerm.perm, m.createParent),
        lambda _: pb.CreateSymlinkResponseProto(),
    ),
    "setReplication": Translation(
        lambda m: requests.SetReplication(m.src, signed_int(m.replication)),
        lambda done: pb.SetReplicationResponseProto(result=done),
    ),
    "setPermission": Translation(
        lambda m: requests.SetPermission(m.src, m.permission.perm),
        lambda _: pb.SetPermissionResponseProto(),
    ),
    "setOwner": Translation(
        lambda m: requests.SetOwner(
            m.src,
            m.username if m.HasField("username") else None,
            m.groupname if m.HasField("groupname") else None,
        ),
        lambda _: pb.SetOwnerResponseProto(),
    ),
    "setTimes": Translation(
        lambda m: requests.SetTimes(m.src, signed(m.mtime), signed(m.atime)),
        lambda _: pb.SetTimesResponseProto(),
    ),
    "setQuota": Translation(
        lambda m: requests.SetQuota(
            m.path,
            signed(m.namespaceQuota),
            signed(m.storagespaceQuota),
            m.storageType if m.HasField("storageType") else None,
        ),
        lambda _: pb.SetQuotaResponseProto(),
    ),
    "setStoragePolicy": Translation(
        lambda m: requests.SetStoragePolicy(m.src, m.policyName),
        lambda _: pb.SetStoragePolicyResponseProto(),
    ),
    "unsetStoragePolicy": Translation(
        lambda m: requests.UnsetStoragePolicy(m.src),
        lambda _: pb.UnsetStoragePolicyResponseProto(),
    ),
}

FILE_SETS: dict[str, Translation] = {
    "renameSet": Translation(
        lambda m: requests.RenameSet(
            tuple((one.src, one.dst) for one in m.renames), tuple(m.deletes)
        ),
        lambda _: RenameSetResponseProto(),
    ),
}
"""Of FileSetProtocol."""
