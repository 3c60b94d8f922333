"""Owners, modes, times, ACLs, extended attributes, quotas, symlinks, concat, storage policies."""

import pytest
from tests.unit.namespace.refusing import refused

from headrace.namespace import requests
from headrace.namespace.requests import (
    CheckAccess,
    Concat,
    CreateSymlink,
    Delete,
    GetAclStatus,
    GetContentSummary,
    GetFileInfo,
    GetFileLinkInfo,
    GetLinkTarget,
    GetQuotaUsage,
    GetXAttrs,
    ListXAttrs,
    Mkdirs,
    ModifyAclEntries,
    RemoveAcl,
    RemoveAclEntries,
    RemoveDefaultAcl,
    RemoveXAttr,
    Rename2,
    RenameSet,
    SetAcl,
    SetOwner,
    SetPermission,
    SetQuota,
    SetReplication,
    SetStoragePolicy,
    SetTimes,
    SetXAttr,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import AclEntry, XAttr
from headrace.testing.namenode import BLOCK_SIZE, SUPERUSER, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

USER, GROUP, MASK, OTHER = 0, 1, 2, 3
ACCESS, DEFAULT = 0, 1
KEEP = 2**63 - 1


@pytest.fixture
def cluster() -> SimulatedNameNode:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.ask(Mkdirs("/d", 0o750))
    cluster.write("/d/f", 100)
    return cluster


def entries(*texts: str) -> tuple[AclEntry, ...]:
    """`default:user:ann:rwx`, as people write them."""
    result = []
    for text in texts:
        parts = text.split(":")
        scope = DEFAULT if parts[0] == "default" else ACCESS
        if scope == DEFAULT:
            parts = parts[1:]
        kind = ("user", "group", "mask", "other").index(parts[0])
        bits = sum(bit for bit, letter in ((4, "r"), (2, "w"), (1, "x")) if letter in parts[2])
        result.append(AclEntry(kind, scope, bits, parts[1]))
    return tuple(result)


def acl(cluster: SimulatedNameNode, path: str) -> tuple[int, tuple[AclEntry, ...]]:
    status = cluster.ask(GetAclStatus(path))
    return status.mode, status.entries


def test_owner_mode_and_times(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetOwner("/d/f", "ann", "users"))
    cluster.ask(SetPermission("/d", 0o755))
    ann, bob = cluster.caller("ann", "users", "staff"), cluster.caller("bob", "users")
    cluster.ask(SetPermission("/d/f", 0o640), ann)
    cluster.ask(SetOwner("/d/f", None, "staff"), ann)
    assert refused(cluster, SetOwner("/d/f", "bob", None), ann) == exceptions.ACCESS_CONTROL
    assert refused(cluster, SetOwner("/d/f", None, "other"), ann) == exceptions.ACCESS_CONTROL
    assert refused(cluster, SetPermission("/d/f", 0o777), bob) == exceptions.ACCESS_CONTROL
    assert refused(cluster, SetTimes("/d/f", 5, 6), bob) == exceptions.ACCESS_CONTROL
    assert refused(cluster, SetPermission("/none", 0o777)) == exceptions.FILE_NOT_FOUND
    cluster.ask(SetTimes("/d/f", 5, -1), ann)
    status = cluster.ask(GetFileInfo("/d/f"))
    assert (status.owner, status.group, status.mode) == ("ann", "staff", 0o640)
    assert status.modification_time_ms == 5
    assert status.access_time_ms > 5
    cluster.ask(CheckAccess("/d/f", 6), ann)
    assert refused(cluster, CheckAccess("/d/f", 2), bob) == exceptions.ACCESS_CONTROL
    assert refused(cluster, CheckAccess("/d/x", 0)) == exceptions.FILE_NOT_FOUND


def test_acl_mask_and_named_entries(cluster: SimulatedNameNode) -> None:
    cluster.ask(ModifyAclEntries("/d/f", entries("user:ann:rw-", "group:staff:r--")))
    mode, stored = acl(cluster, "/d/f")
    assert mode == 0o664, "the mask is the union"
    assert stored == entries("user:ann:rw-", "group::r--", "group:staff:r--")
    ann = cluster.caller("ann", "none")
    cluster.ask(SetPermission("/d", 0o755))
    cluster.ask(CheckAccess("/d/f", 6), ann)
    cluster.ask(SetPermission("/d/f", 0o644))
    assert refused(cluster, CheckAccess("/d/f", 2), ann) == exceptions.ACCESS_CONTROL
    cluster.ask(RemoveAclEntries("/d/f", entries("user:ann:---")))
    assert acl(cluster, "/d/f")[1] == entries("group::r--", "group:staff:r--")
    cluster.ask(RemoveAcl("/d/f"))
    assert acl(cluster, "/d/f") == (0o644, ())
    assert cluster.ask(GetFileInfo("/d/f")).has_acl is False


def test_default_acl_is_inherited(cluster: SimulatedNameNode) -> None:
    wanted = entries("user::rwx", "group::r-x", "other::---", "default:user:ann:rwx")
    cluster.ask(SetAcl("/d", wanted))
    mode, stored = acl(cluster, "/d")
    assert mode == 0o750
    assert stored == entries(
        "default:user::rwx",
        "default:user:ann:rwx",
        "default:group::r-x",
        "default:mask::rwx",
        "default:other::---",
    )
    cluster.ask(Mkdirs("/d/sub", 0o755, True, 0o777))
    mode, inherited = acl(cluster, "/d/sub")
    assert mode == 0o770
    assert entries("user:ann:rwx")[0] in inherited
    assert set(stored) <= set(inherited)
    cluster.create("/d/sub/g", mode=0o644, unmasked=0o666)
    mode, of_file = acl(cluster, "/d/sub/g")
    assert mode == 0o660
    assert of_file == entries("user:ann:rwx", "group::r-x")
    cluster.ask(RemoveDefaultAcl("/d"))
    assert acl(cluster, "/d") == (0o750, ())
    before = durable_state(cluster.ns)
    cluster.restart()
    assert durable_state(cluster.ns) == before


def test_bad_acls(cluster: SimulatedNameNode) -> None:
    bad = [
        ModifyAclEntries("/d/f", entries("default:user:ann:r--")),
        ModifyAclEntries("/d/f", entries("user:ann:r--", "user:ann:rwx")),
        ModifyAclEntries("/d/f", entries("mask:x:r--")),
        SetAcl("/d/f", entries("user:ann:r--")),
        ModifyAclEntries("/d/f", entries(*[f"user:u{i}:r--" for i in range(40)])),
    ]
    for request in bad:
        assert refused(cluster, request) == exceptions.ACL
    other = cluster.caller("bob")
    cluster.ask(SetPermission("/d", 0o755))
    request = ModifyAclEntries("/d/f", entries("user:bob:rwx"))
    assert refused(cluster, request, other) == exceptions.ACCESS_CONTROL


def test_xattrs(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetXAttr("/d/f", XAttr(0, "a", b"1"), 1))
    assert refused(cluster, SetXAttr("/d/f", XAttr(0, "a", b"2"), 1)) == exceptions.IO
    assert refused(cluster, SetXAttr("/d/f", XAttr(0, "b", b"2"), 2)) == exceptions.IO
    cluster.ask(SetXAttr("/d/f", XAttr(0, "a", b"2"), 3))
    cluster.ask(SetXAttr("/d/f", XAttr(1, "t", b"secret"), 1))
    assert cluster.ask(GetXAttrs("/d/f")) == (XAttr(1, "t", b"secret"), XAttr(0, "a", b"2"))
    assert cluster.ask(ListXAttrs("/d/f")) == cluster.ask(GetXAttrs("/d/f"))
    cluster.ask(SetPermission("/d", 0o755))
    bob = cluster.caller("bob")
    assert cluster.ask(GetXAttrs("/d/f"), bob) == (XAttr(0, "a", b"2"),)
    trusted = GetXAttrs("/d/f", (XAttr(1, "t"),))
    assert refused(cluster, trusted, bob) == exceptions.ACCESS_CONTROL
    assert refused(cluster, SetXAttr("/d/f", XAttr(0, "z"), 1), bob) == exceptions.ACCESS_CONTROL
    assert refused(cluster, SetXAttr("/d/f", XAttr(3, "z"), 1)) == exceptions.ACCESS_CONTROL
    assert refused(cluster, GetXAttrs("/d/f", (XAttr(0, "no"),))) == exceptions.XATTR_NOT_FOUND
    assert refused(cluster, RemoveXAttr("/d/f", XAttr(0, "no"))) == exceptions.IO
    huge = SetXAttr("/d/f", XAttr(0, "h", b"x" * 16_384), 1)
    assert refused(cluster, huge) == exceptions.HADOOP_ILLEGAL_ARGUMENT
    for index in range(30):
        cluster.ask(SetXAttr("/d/f", XAttr(0, f"n{index}"), 1))
    assert refused(cluster, SetXAttr("/d/f", XAttr(0, "n99"), 1)) == exceptions.IO
    cluster.ask(RemoveXAttr("/d/f", XAttr(0, "a")))
    assert XAttr(0, "a") not in cluster.ask(ListXAttrs("/d/f"))


def test_name_quota(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetQuota("/d", 4, KEEP))
    assert cluster.ask(GetQuotaUsage("/d")).file_and_directory_count == 2
    cluster.ask(Mkdirs("/d/x/y", 0o755))
    assert refused(cluster, Mkdirs("/d/z", 0o755)) == exceptions.NS_QUOTA_EXCEEDED
    cluster.ask(Mkdirs("/e/e2", 0o755))
    assert refused(cluster, Rename2("/e", "/d/e")) == exceptions.NS_QUOTA_EXCEEDED
    cluster.ask(Rename2("/d/x/y", "/d/y"))
    cluster.ask(Delete("/d/x", True))
    cluster.ask(Mkdirs("/d/z", 0o755))
    cluster.ask(Rename2("/d/z", "/z"))
    assert cluster.ask(GetQuotaUsage("/d")).file_and_directory_count == 3
    cluster.ask(SetQuota("/d", -1, KEEP))
    cluster.ask(Mkdirs("/d/1/2/3/4/5", 0o755))
    assert cluster.ns.quota_count == 0
    bob = cluster.caller("bob")
    assert refused(cluster, SetQuota("/d", 4, KEEP), bob) == exceptions.ACCESS_CONTROL
    assert refused(cluster, SetQuota("/d", -7, KEEP)) == exceptions.ILLEGAL_ARGUMENT
    assert refused(cluster, SetQuota("/none", 4, KEEP)) == exceptions.FILE_NOT_FOUND


def test_a_block_that_is_opened_again_counts_whole(cluster: SimulatedNameNode) -> None:
    """An append, also one that begins a new block, and a cut inside of a block."""
    cluster.write("/d/two", BLOCK_SIZE, 7)
    cluster.ask(SetQuota("/d", KEEP, 3 * (BLOCK_SIZE + 107)))
    for request in (
        requests.Append("/d/two", "w"),
        requests.Append("/d/two", "w", requests.NEW_BLOCK),
        requests.Truncate("/d/f", 50, "w"),
    ):
        assert refused(cluster, request) == exceptions.DS_QUOTA_EXCEEDED
    assert cluster.ask(requests.Truncate("/d/two", BLOCK_SIZE, "w")) is True
    assert cluster.ask(GetQuotaUsage("/d")).space_consumed == 3 * (BLOCK_SIZE + 100)


def test_space_quota(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetQuota("/d", KEEP, 3 * BLOCK_SIZE + 299))
    cluster.create("/d/g")
    with pytest.raises(RemoteError) as caught:
        cluster.add_block("/d/g")
    assert caught.value.class_name == exceptions.DS_QUOTA_EXCEEDED
    cluster.ask(SetQuota("/d", KEEP, 3 * BLOCK_SIZE + 300))
    located = cluster.add_block("/d/g")
    assert cluster.ask(GetQuotaUsage("/d")).space_consumed == 3 * BLOCK_SIZE + 300
    done = cluster.pipeline(located, 10)
    cluster.ask(requests.Complete("/d/g", "writer", done))
    assert cluster.ask(GetQuotaUsage("/d")).space_consumed == 330
    cluster.ask(SetReplication("/d/f", 1))
    assert cluster.ask(GetQuotaUsage("/d")).space_consumed == 130
    cluster.ask(Delete("/d/f", False))
    assert cluster.ask(GetQuotaUsage("/d")).space_consumed == 30


def test_content_summary(cluster: SimulatedNameNode) -> None:
    cluster.write("/d/x/g", 50, replication=1)
    summary = cluster.ask(GetContentSummary("/d"))
    assert (summary.length, summary.file_count, summary.directory_count) == (150, 2, 2)
    assert summary.space_consumed == 350
    bob = cluster.caller("bob")
    cluster.ask(SetPermission("/d", 0o755))
    cluster.ask(SetPermission("/d/x", 0o700))
    assert refused(cluster, GetContentSummary("/d"), bob) == exceptions.ACCESS_CONTROL
    assert refused(cluster, GetContentSummary("/none")) == exceptions.FILE_NOT_FOUND


def test_symlinks(cluster: SimulatedNameNode) -> None:
    cluster.ask(CreateSymlink("/d", "/l/link", 0o755, True))
    assert cluster.ask(GetFileLinkInfo("/l/link")).symlink == "/d"
    with pytest.raises(RemoteError) as caught:
        cluster.ask(GetFileInfo("/l/link/f"))
    assert caught.value.class_name == exceptions.UNRESOLVED_PATH
    assert cluster.ask(GetLinkTarget("/l/link/f")) == "/d/f"
    assert cluster.ask(GetLinkTarget("/l/link")) == "/d"
    assert refused(cluster, GetFileInfo("/l/link")) == exceptions.UNRESOLVED_PATH
    assert refused(cluster, CreateSymlink("/x", "/l/link", 0o755, True)) == (
        exceptions.FILE_ALREADY_EXISTS
    )
    assert cluster.ask(Delete("/l/link", False)) is True
    assert cluster.ask(GetFileInfo("/d")) is not None


def test_concat(cluster: SimulatedNameNode) -> None:
    cluster.write("/d/g", BLOCK_SIZE, 7)
    cluster.write("/d/empty")
    assert refused(cluster, Concat("/d/f", ())) == exceptions.ILLEGAL_ARGUMENT
    for sources in (("/d/f",), ("/d/g", "/d/g"), ("/d/empty",)):
        assert refused(cluster, Concat("/d/f", sources)) == exceptions.HADOOP_ILLEGAL_ARGUMENT
    cluster.write("/elsewhere", 5)
    assert refused(cluster, Concat("/d/f", ("/elsewhere",))) == exceptions.HADOOP_ILLEGAL_ARGUMENT
    cluster.ask(Delete("/elsewhere", False))
    assert refused(cluster, Concat("/d/f", ("/d/none",))) == exceptions.FILE_NOT_FOUND
    cluster.ask(SetQuota("/d", 10, KEEP))
    cluster.ask(Concat("/d/f", ("/d/g",)))
    assert cluster.ask(GetFileInfo("/d/f")).length == 100 + BLOCK_SIZE + 7
    assert cluster.ask(GetFileInfo("/d/g")) is None
    located = cluster.ask(requests.GetBlockLocations("/d/f", 0, 10 * BLOCK_SIZE))
    assert [block.offset for block in located.blocks] == [0, 100, 100 + BLOCK_SIZE]
    usage = cluster.ask(GetQuotaUsage("/d"))
    assert usage.space_consumed == 3 * (BLOCK_SIZE + 107)
    assert usage.file_and_directory_count == 3
    cluster.run(10_000)
    assert all(len(node.replicas) == 3 for node in cluster.nodes)
    cluster.restart()
    assert cluster.ask(GetFileInfo("/d/f")).length == 100 + BLOCK_SIZE + 7


def test_a_set_of_renames_is_one_edit(cluster: SimulatedNameNode) -> None:
    cluster.write("/d/g", 5)
    cluster.write("/d/merged", 105)
    request = RenameSet((("/d/merged", "/d/f"),), ("/d/f", "/d/g"))
    assert refused(cluster, RenameSet((("/d/merged", "/d/f"),))) == exceptions.FILE_ALREADY_EXISTS
    assert refused(cluster, RenameSet((("/d/merged", "/no/f"),))) == exceptions.FILE_NOT_FOUND
    assert refused(cluster, RenameSet((), ("/d",))) == exceptions.FILE_NOT_FOUND
    log = cluster.namenode.journal.log
    cluster.ask(request)
    assert [entry.path for entry in cluster.ask(requests.GetListing("/d", b"")).entries] == ["f"]
    assert cluster.ask(GetFileInfo("/d/f")).length == 105
    assert log.log_end_offset == cluster.ns.last_offset + 1


def test_storage_policies(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetStoragePolicy("/d", "HOT"))
    assert cluster.ask(GetFileInfo("/d")).storage_policy == 7
    assert refused(cluster, SetStoragePolicy("/d", "COLD")) == exceptions.HADOOP_ILLEGAL_ARGUMENT


def test_a_large_tree_is_summed_between_other_requests() -> None:
    settings = NamespaceSettings(superuser=SUPERUSER, content_summary_limit=10)
    cluster = SimulatedNameNode(settings=settings)
    for index in range(50):
        cluster.ask(Mkdirs(f"/d/{index}", 0o755))
    promise = cluster.submit(GetContentSummary("/d"))
    assert not promise.settled
    assert cluster.ask(Mkdirs("/meanwhile", 0o755)) is True
    cluster.timers.run_due()
    assert promise.value().directory_count == 51
    refusal = cluster.submit(GetContentSummary("/none"))
    assert isinstance(refusal.error, RemoteError)


def test_a_large_delete_frees_its_blocks_in_slices() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    cluster.create("/d/f", replication=1)
    previous = None
    for _ in range(1_500):
        previous = cluster.pipeline(cluster.add_block("/d/f", "writer", previous), 5)
    assert cluster.ask(requests.Complete("/d/f", "writer", previous)) is True
    assert cluster.ask(Delete("/d", True)) is True
    cluster.beat(5)
    assert cluster.ns.blocks == {}
    assert cluster.nodes[0].replicas == {}
