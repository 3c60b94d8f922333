"""Plain edits are the messages of `edits.proto`: the same bytes, and the same state from either."""

import contextlib
from random import Random
from typing import Any

import pytest

from headrace.namespace import requests as asked
from headrace.namespace.edits import PlainEdit, Record, RetryEntry
from headrace.namespace.filesystem import Namespace
from headrace.namespace.inodes import Access, DirectoryInode, FileInode, Writer
from headrace.namespace.journal import encode_edit
from headrace.namespace.ops.complete import CloseFileEdit
from headrace.namespace.ops.create import AddFileEdit, FileKind
from headrace.namespace.ops.delete import DeleteEdit
from headrace.namespace.ops.mkdirs import MkdirEdit
from headrace.namespace.ops.rename import RenameEdit
from headrace.namespace.protos import edits_pb2 as pb
from headrace.namespace.values import AclEntry, ExtendedBlock
from headrace.testing.namenode import BLOCK_SIZE, SimulatedNameNode, durable_state
from headrace.wire.hadoop.exceptions import RemoteError

NUMBERS = [1, 127, 128, 16_390, 2**21, 2**32, 2**63 - 1]
TIMES = [0, 1, 1_700_000_000_000, 2**63 - 1]
TEXTS = ["", "a", "ä" * 64, "x" * 127, "y" * 128, "z" * 70_000]
NAMES = [text for text in TEXTS if text]
ACL = (AclEntry(0, 0, 7, "anna"), AclEntry(1, 1, 0, ""), AclEntry(2, 1, 5, "n" * 200))


def some_edit(rng: Random) -> tuple[PlainEdit, pb.Edit]:
    """An edit of any kind, and the message that it stands for."""
    inode_id, parent_id = rng.choice(NUMBERS), rng.choice(NUMBERS)
    name, time_ms = rng.choice(NAMES), rng.choice(TIMES)
    access = Access(rng.choice(TEXTS), rng.choice(TEXTS), rng.choice([0, 0o644, 0o1777]))
    acl = rng.choice([(), ACL[:1], ACL])
    replication, block_size = rng.choice([0, 1, 3, 512]), rng.choice([0, *NUMBERS])
    writer = Writer(rng.choice(TEXTS), rng.choice(TEXTS))
    directory = DirectoryInode(inode_id, name, access, time_ms)
    file = FileInode(inode_id, name, access, time_ms, time_ms, replication, block_size)
    other = FileInode(rng.choice(NUMBERS), "", access, 0, 0, 1, 1)
    if acl:
        directory.with_features().acl = file.with_features().acl = acl
    owned: dict[str, Any] = {
        "inode_id": inode_id,
        "parent_id": parent_id,
        "name": name,
        "owner": access.owner,
        "group": access.group,
        "mode": access.mode,
        "time_ms": time_ms,
        "acl": [pb.AclEntry(type=t, scope=s, permission=p, name=n) for t, s, p, n in acl],
    }
    kind = rng.randrange(5)
    if kind == 0:
        message = pb.AddFile(
            **owned,
            replication=replication,
            block_size=block_size,
            client_name=writer.client_name,
            client_machine=writer.client_machine,
        )
        kind = FileKind(access, replication, block_size, *writer)
        return AddFileEdit(file, parent_id, kind), pb.Edit(add_file=message)
    if kind == 1:
        return MkdirEdit(directory, parent_id), pb.Edit(mkdir=pb.Mkdir(**owned))
    if kind == 2:
        deletion = pb.Delete(inode_id=inode_id, time_ms=time_ms)
        return DeleteEdit(file, time_ms), pb.Edit(delete=deletion)
    if kind == 3:
        last = rng.choice([None, ExtendedBlock("pool", 2**30, 1001, rng.choice([0, 2**63 - 1]))])
        close = pb.CloseFile(inode_id=inode_id, time_ms=time_ms)
        if last is not None:
            close.last.block_id, close.last.generation_stamp = last.block_id, last.generation_stamp
            close.last.num_bytes = last.num_bytes
        return CloseFileEdit(file, time_ms, last), pb.Edit(close_file=close)
    parent = DirectoryInode(parent_id, "", access, 0)
    replaced = rng.choice([None, other])
    rename = pb.Rename(inode_id=inode_id, parent_id=parent_id, name=name, time_ms=time_ms)
    if replaced is not None:
        rename.replaced_id = replaced.inode_id
    return RenameEdit(file, parent, name, time_ms, replaced), pb.Edit(rename=rename)


@pytest.mark.parametrize("seed", range(4))
def test_the_bytes_are_those_of_the_message(seed: int) -> None:
    rng = Random(seed)
    for _ in range(500):
        edit, message = some_edit(rng)
        assert edit.encoded() == message.SerializeToString()
        key = (rng.choice([b"c" * 16, b"d" * 200]), rng.choice([0, 1, 64, 2**30, 2**31 - 1, -1]))
        texts = [f"Create /{text}" for text in TEXTS]
        results = [b"", b"\x00", b"16386", b"r" * 300]
        entry = RetryEntry(rng.choice(texts), rng.choice(TIMES), rng.choice(results))
        edit.retry_key, edit.retry_entry = key, entry
        message.client_id, message.call_id = key
        message.request, message.time_ms = entry.request, entry.time_ms
        message.result = entry.result
        assert edit.encoded() == message.SerializeToString()


def some_request(rng: Random) -> Any:
    path, other = (
        "/" + "/".join(rng.choice("abcä") for _ in range(rng.randint(1, 3))) for _ in "ab"
    )
    holder = rng.choice(["one", "two"])
    return rng.choice(
        [
            asked.Mkdirs(path, 0o755, rng.random() < 0.8),
            asked.Create(
                path, 0o640, holder, rng.choice([1, 3]), rng.random() < 0.5, 3, BLOCK_SIZE
            ),
            asked.Complete(path, holder),
            asked.Rename(path, other),
            asked.Rename2(path, other, rng.random() < 0.5),
            asked.Delete(path, rng.random() < 0.5),
            asked.ModifyAclEntries(path, (AclEntry(0, 1, 7, "anna"),)),
            asked.SetQuota(path, 30, -1, None),
        ]
    )


@pytest.mark.sources
@pytest.mark.parametrize("seed", range(4))
def test_what_the_log_tells_is_what_was_decided(seed: int) -> None:
    """Every record is replayed as it was decided and, into another namespace, as it was written."""
    rng = Random(seed)
    cluster = SimulatedNameNode(seed=seed)
    ns, twin = cluster.ns, Namespace(cluster.settings)
    ns_replay = ns.replay
    kinds = set()

    def replay(record: Record) -> None:
        kinds.add(type(record))
        data = encode_edit(record)
        message = pb.Edit.FromString(data)
        assert message.SerializeToString() == data
        ns_replay(record)
        twin.replay(message)

    for inode_id in list(ns.inodes):
        assert inode_id in twin.inodes, "only the root is there yet"
    twin.namespace_id, twin.cluster_id, twin.pool_id = ns.namespace_id, ns.cluster_id, ns.pool_id
    twin.root.access, twin.root.modification_time_ms = ns.root.access, ns.root.modification_time_ms
    ns.replay = replay  # type: ignore[method-assign]
    for number in range(400):
        if number == 200:
            cluster.ask(asked.AllowSnapshot("/"))
            cluster.ask(asked.CreateSnapshot("/", "s"))
        with contextlib.suppress(RemoteError):
            cluster.ask(some_request(rng))
        cluster.clock.advance(3)
    assert kinds >= {AddFileEdit, CloseFileEdit, DeleteEdit, MkdirEdit, RenameEdit, pb.Edit}
    assert durable_state(ns) == durable_state(twin)
