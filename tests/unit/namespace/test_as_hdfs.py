"""What a random comparison with Apache's NameNode found, each by itself: its answers are ours.

`tests/interop/hdfs/test_random_differences.py` is that comparison.
"""

import pytest
from tests.unit.namespace.refusing import refused

from headrace.namespace import requests as asked
from headrace.namespace.caller import Caller
from headrace.namespace.requests import (
    AllowSnapshot,
    Append,
    Create,
    CreateSnapshot,
    Delete,
    DeleteSnapshot,
    GetAclStatus,
    GetFileInfo,
    GetListing,
    GetQuotaUsage,
    GetSnapshotDiffReport,
    GetSnapshotListing,
    GetXAttrs,
    ListXAttrs,
    Mkdirs,
    ModifyAclEntries,
    RecoverLease,
    RemoveAclEntries,
    Rename,
    Rename2,
    RenameSnapshot,
    SetAcl,
    SetOwner,
    SetPermission,
    SetTimes,
    SetXAttr,
    Truncate,
)
from headrace.namespace.values import AclEntry, XAttr
from headrace.testing.namenode import BLOCK_SIZE, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

USER, GROUP, MASK, OTHER = range(4)
ACCESS, DEFAULT = 0, 1


@pytest.fixture
def cluster() -> SimulatedNameNode:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.ask(Mkdirs("/d/sub", 0o755))
    cluster.write("/f", 100)
    return cluster


def create(
    path: str, flags: int = 1, *, parent: bool = True, block_size: int = BLOCK_SIZE
) -> Create:
    return Create(path, 0o644, "w", flags, parent, 1, block_size)


def mode(cluster: SimulatedNameNode, path: str) -> int:
    return int(cluster.ask(GetFileInfo(path)).mode)


# -- paths ----------------------------------------------------------------------------------------


def test_below_a_file(cluster: SimulatedNameNode) -> None:
    """Who makes something hears of the parent; others that they may not look; the superuser asks
    what is there, and that is nothing."""
    assert refused(cluster, Mkdirs("/f/x", 0o755)) == java.PARENT_NOT_DIRECTORY
    assert refused(cluster, create("/f/x")) == java.PARENT_NOT_DIRECTORY
    assert refused(cluster, Rename2("/d", "/f/x")) == java.PARENT_NOT_DIRECTORY
    for request in (Delete("/f/x", True), SetPermission("/f/x", 0), GetListing("/f/x", b"")):
        assert refused(cluster, request) == java.ACCESS_CONTROL
    assert refused(cluster, GetFileInfo("/f/x"), cluster.caller("eve")) == java.ACCESS_CONTROL
    assert cluster.ask(GetFileInfo("/f/x")) is None


def test_names_that_nobody_can_make_are_not_there(cluster: SimulatedNameNode) -> None:
    for path in ("/d/..", "/d/./sub", "/a:b"):
        assert cluster.ask(GetFileInfo(path)) is None
        assert cluster.ask(Delete(path, True)) is False
        assert refused(cluster, Mkdirs(path, 0o755)) == java.INVALID_PATH
        assert refused(cluster, asked.RenameSet((("/f", path),), ())) == java.INVALID_PATH
    assert cluster.ask(GetFileInfo("//d///sub/")).kind == 1
    assert refused(cluster, Mkdirs("/d//new", 0o755)) == java.INVALID_PATH


def test_the_root_has_a_snapshot_folder(cluster: SimulatedNameNode) -> None:
    assert cluster.ask(GetFileInfo("/")).is_snapshottable
    assert cluster.ask(GetFileInfo("/.snapshot")).mode == 0o777
    assert cluster.ask(GetListing("/.snapshot", b"")).entries == ()
    assert cluster.ask(GetSnapshotListing("/")) == ()
    assert cluster.ask(GetAclStatus("/.snapshot")).mode is None
    assert refused(cluster, Mkdirs("/.snapshot/x", 0o755)) == java.SNAPSHOT_ACCESS_CONTROL
    assert refused(cluster, GetListing("/none/.snapshot", b"")) == java.FILE_NOT_FOUND
    assert refused(cluster, GetListing("/d/.snapshot", b"")) == java.SNAPSHOT


def test_raw_paths_are_the_superusers_to_write(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetPermission("/", 0o777))
    eve = cluster.caller("eve")
    assert refused(cluster, Mkdirs("/.reserved/raw/x", 0o755), eve) == java.ACCESS_CONTROL
    assert cluster.ask(GetFileInfo("/.reserved/raw/d"), cluster.caller("eve")).kind == 1


def test_listings_page_in_the_order_of_signed_bytes(cluster: SimulatedNameNode) -> None:
    cluster.ask(Mkdirs("/é", 0o755))
    names = [entry.path for entry in cluster.ask(GetListing("/", b"")).entries]
    assert names == ["é", "d", "f"]
    after = cluster.ask(GetListing("/", "é".encode())).entries
    assert [entry.path for entry in after] == ["d", "f"]
    missing = GetListing("/", b"/.reserved/.inodes/99999")
    assert refused(cluster, missing) == java.DIRECTORY_LISTING_START_AFTER_NOT_FOUND


# -- making and taking away -----------------------------------------------------------------------


def test_missing_parents_are_not_sticky(cluster: SimulatedNameNode) -> None:
    cluster.ask(Mkdirs("/p/q", 0o1755))
    assert (mode(cluster, "/p"), mode(cluster, "/p/q")) == (0o755, 0o1755)
    cluster.ask(SetPermission("/d", 0o1777))
    cluster.ask(create("/d/new/file"))
    assert mode(cluster, "/d/new") == 0o777


def test_what_create_asks_first(cluster: SimulatedNameNode) -> None:
    """The place, then the shape of the file."""
    assert refused(cluster, create("/x/y", parent=False, block_size=1)) == java.FILE_NOT_FOUND
    assert refused(cluster, create("/d", 3, block_size=1)) == java.FILE_ALREADY_EXISTS
    assert refused(cluster, create("/d/x", block_size=1)) == java.IO
    assert refused(cluster, create("/d/x", block_size=1), cluster.caller("eve")) == (
        java.ACCESS_CONTROL
    )


def test_a_sticky_directory_guards_against_removal(cluster: SimulatedNameNode) -> None:
    """By whatever way, but for a create: who may write a file may write another in its place."""
    cluster.ask(Mkdirs("/shared", 0o1777))
    cluster.ask(SetPermission("/shared", 0o1777))
    cluster.write("/shared/ann", 10)
    cluster.ask(SetOwner("/shared/ann", "ann", None))
    cluster.ask(SetPermission("/shared/ann", 0o666))
    cluster.ask(create("/shared/mine"), cluster.caller("eve"))
    for request in (
        Delete("/shared/ann", False),
        Rename2("/shared/ann", "/shared/x"),
        Rename2("/shared/mine", "/shared/ann", overwrite=True),
    ):
        assert refused(cluster, request, cluster.caller("eve")) == java.ACCESS_CONTROL
    cluster.ask(create("/shared/ann", 3), cluster.caller("eve"))
    assert cluster.ask(GetFileInfo("/shared/ann")).owner == "eve"


def test_who_may_delete_is_asked_before_what_is_there(cluster: SimulatedNameNode) -> None:
    eve = cluster.caller("eve")
    assert refused(cluster, Delete("/d", False), eve) == java.ACCESS_CONTROL
    assert refused(cluster, Delete("/none", False), cluster.caller("eve")) == java.ACCESS_CONTROL
    assert refused(cluster, Delete("/", False)) == java.PATH_IS_NOT_EMPTY_DIRECTORY
    assert cluster.ask(Delete("/", True)) is False


def test_what_goes_to_the_trash_could_be_deleted(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetPermission("/", 0o777))
    cluster.ask(SetOwner("/d", "eve", None))
    cluster.ask(Mkdirs("/d/sub/kept", 0o755))
    request = Rename2("/d", "/trash", move_to_trash=True)
    assert refused(cluster, request, cluster.caller("eve")) == java.ACCESS_CONTROL
    cluster.ask(Rename2("/d", "/elsewhere"), cluster.caller("eve"))


def test_rename_into_a_directory_asks_for_the_name_there(cluster: SimulatedNameNode) -> None:
    assert cluster.ask(Rename("/d/.snapshot", "/")) is False
    assert cluster.ask(Rename("/f", "/d")) is True
    assert cluster.ask(GetFileInfo("/d/f")).kind == 2


def test_a_snapshottable_directory_does_not_come_below_another(cluster: SimulatedNameNode) -> None:
    cluster.ask(Mkdirs("/e/inner", 0o755))
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(AllowSnapshot("/e/inner"))
    for request in (Rename("/e", "/d"), Rename2("/e/inner", "/d/sub/x")):
        assert refused(cluster, request) == java.SNAPSHOT
    cluster.ask(Rename2("/e/inner", "/moved"))


def test_open_files_by_others(cluster: SimulatedNameNode) -> None:
    eve = cluster.caller("eve")
    assert cluster.ask(RecoverLease("/f", "w"), eve) is True, "it is closed: nobody is asked"
    assert refused(cluster, Append("/d", "w")) == java.FILE_ALREADY_EXISTS
    assert refused(cluster, Truncate("/d", 0, "w"), cluster.caller("eve")) == java.ACCESS_CONTROL


# -- attributes -----------------------------------------------------------------------------------


def test_directories_have_access_times(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetTimes("/d", -1, 1234))
    assert cluster.ask(GetFileInfo("/d")).access_time_ms == 1234
    before = durable_state(cluster.ns)
    cluster.restart()
    assert cluster.ask(GetFileInfo("/d")).access_time_ms == 1234
    cluster.checkpoint()
    cluster.restart()
    assert cluster.ask(GetFileInfo("/d")).access_time_ms == 1234
    assert durable_state(cluster.ns) == before
    cluster.ask(SetTimes("/d", -1, 0))
    assert cluster.ns.directory(cluster.ask(GetFileInfo("/d")).inode_id).features is None


def test_xattrs(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetXAttr("/f", XAttr(0, "a", b"1"), 1))
    cluster.ask(SetXAttr("/f", XAttr(0, "b", b"2"), 1))
    assert [found.name for found in cluster.ask(GetXAttrs("/f"))] == ["b", "a"]
    missing = GetXAttrs("/f", (XAttr(0, "none"),))
    assert refused(cluster, missing) == java.XATTR_NOT_FOUND
    assert refused(cluster, SetXAttr("/f", XAttr(0, "a"), 0)) == java.HADOOP_ILLEGAL_ARGUMENT
    cluster.ask(SetPermission("/f", 0o600))
    assert refused(cluster, ListXAttrs("/f"), cluster.caller("eve")) == java.ACCESS_CONTROL
    cluster.ask(SetPermission("/d", 0o1777))
    request = SetXAttr("/d", XAttr(0, "a"), 1)
    assert refused(cluster, request, cluster.caller("eve")) == java.ACCESS_CONTROL


def test_quota_usage_is_for_those_who_may_look_below(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetPermission("/d/sub", 0o700))
    assert refused(cluster, GetQuotaUsage("/d"), cluster.caller("eve")) == java.ACCESS_CONTROL


def test_a_mask_alone_makes_no_acl(cluster: SimulatedNameNode) -> None:
    cluster.ask(ModifyAclEntries("/f", (AclEntry(MASK, DEFAULT, 4),)))
    assert cluster.ask(GetAclStatus("/f")).entries == ()


def test_a_mask_that_is_needed_stays(cluster: SimulatedNameNode) -> None:
    cluster.ask(ModifyAclEntries("/f", (AclEntry(USER, ACCESS, 7, "ann"),)))
    request = RemoveAclEntries("/f", (AclEntry(MASK, ACCESS, 0),))
    assert refused(cluster, request) == java.ACL


def test_an_empty_acl_takes_all_away(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetPermission("/f", 0o750))
    cluster.ask(ModifyAclEntries("/f", (AclEntry(USER, ACCESS, 7, "ann"),)))
    cluster.ask(SetAcl("/f", ()))
    assert cluster.ask(GetAclStatus("/f")).entries == ()
    assert mode(cluster, "/f") == 0o750


def test_inherited_acls_take_the_unmasked_mode_whole(cluster: SimulatedNameNode) -> None:
    cluster.ask(ModifyAclEntries("/d", (AclEntry(USER, DEFAULT, 7, "ann"),)))
    cluster.ask(Mkdirs("/d/x/y", 0o700, True, 0o1777))
    assert mode(cluster, "/d/x/y") & 0o1000
    assert mode(cluster, "/d/x") & 0o070 == 0o070, "parents too"


# -- snapshots ------------------------------------------------------------------------------------


def test_a_part_of_a_snapshottable_directory_is_compared(cluster: SimulatedNameNode) -> None:
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(Mkdirs("/d/sub/new", 0o755))
    cluster.ask(Mkdirs("/d/other", 0o755))
    report = cluster.ask(GetSnapshotDiffReport("/d/sub", "s1", ""))
    assert [(e.kind, e.path) for e in report.entries] == [("M", ""), ("+", "new")]
    cluster.ask(Mkdirs("/e", 0o755))
    assert refused(cluster, GetSnapshotDiffReport("/e", "s1", "")) == java.SNAPSHOT


def test_all_of_a_compared_snapshot_must_be_readable(cluster: SimulatedNameNode) -> None:
    cluster.ask(SetPermission("/d/sub", 0o700))
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s1"))
    request = GetSnapshotDiffReport("/d", "s1", "")
    assert refused(cluster, request, cluster.caller("eve")) == java.ACCESS_CONTROL


def test_whose_a_directory_is_comes_before_what_it_is(cluster: SimulatedNameNode) -> None:
    eve = cluster.caller("eve")
    assert refused(cluster, CreateSnapshot("/d", "s1"), eve) == java.ACCESS_CONTROL
    assert refused(cluster, CreateSnapshot("/f", "s1")) == java.PATH_IS_NOT_DIRECTORY
    assert refused(cluster, CreateSnapshot("/d", ".reserved")) == java.INVALID_PATH


def test_another_time_alone_is_no_difference(cluster: SimulatedNameNode) -> None:
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(SetTimes("/d/sub", 1, 1))
    assert cluster.ask(GetSnapshotDiffReport("/d", "s1", "")).entries == ()
    cluster.ask(asked.SetQuota("/d/sub", 9, -1))
    report = cluster.ask(GetSnapshotDiffReport("/d", "", "s1"))
    assert [(e.kind, e.path) for e in report.entries] == [("M", "sub")]


def test_snapshots_are_entered_by_the_modes_of_then(cluster: SimulatedNameNode) -> None:
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s2"))
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(SetPermission("/d", 0o700))
    assert cluster.ask(GetFileInfo("/d/.snapshot/s1/sub"), cluster.caller("eve")).kind == 1
    assert refused(cluster, GetFileInfo("/d/sub"), cluster.caller("eve")) == java.ACCESS_CONTROL
    listed = cluster.ask(GetSnapshotListing("/d"))
    assert [one.status.path for one in listed] == ["s1", "s2"]
    assert not cluster.ask(GetFileInfo("/d/.snapshot/s1")).is_snapshottable


def test_a_snapshot_that_comes_or_goes_changes_its_directory(cluster: SimulatedNameNode) -> None:
    def modified(path: str = "/d") -> int:
        return int(cluster.ask(GetFileInfo(path)).modification_time_ms)

    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s0"))
    for request, changes in (
        (CreateSnapshot("/d", "s1"), True),
        (RenameSnapshot("/d", "s1", "s2"), False),
        (DeleteSnapshot("/d", "s2"), True),
    ):
        cluster.ask(SetTimes("/d", 1, 1))
        cluster.ask(request)
        assert (modified() > 1) is changes, request
    assert modified("/d/.snapshot/s0") > 1, "it tells when it was made"
    assert not cluster.ask(GetSnapshotDiffReport("/d", "s0", "")).entries


# -- what is asked of one path --------------------------------------------------------------------


def test_open_files_below_a_path_and_of_one_file(cluster: SimulatedNameNode) -> None:
    for path in ("/d/open", "/d/sub/open", "/dd"):
        cluster.ask(create(path))

    def listed(path: str, after_id: int = 0) -> list[str]:
        return [file.path for file in cluster.ask(asked.ListOpenFiles(after_id, path))]

    assert listed("/") == ["/d/open", "/d/sub/open", "/dd"]
    assert listed("/d") == listed("/d/") == ["/d/open", "/d/sub/open"]
    assert listed("/d/open") == ["/d/open"]
    assert listed("/d/op") == listed("/none") == []
    first = cluster.ask(GetFileInfo("/d/open")).inode_id
    assert listed("/", first) == ["/d/sub/open", "/dd"]
    with pytest.raises(RemoteError) as caught:
        cluster.ask(asked.ListOpenFiles(0), Caller("mallory"))
    assert caught.value.class_name == java.ACCESS_CONTROL


@pytest.mark.parametrize("place", ["/.reserved/raw", "/.reserved/.inodes/16387"])
def test_concat_knows_no_reserved_paths(cluster: SimulatedNameNode, place: str) -> None:
    cluster.write("/g", BLOCK_SIZE)
    cluster.write("/h", 100)
    assert refused(cluster, asked.Concat(f"{place}/g", ("/h",))) == java.IO
    assert refused(cluster, asked.Concat("/g", (f"{place}/h",))) == java.IO


@pytest.mark.parametrize(
    "request_class", [asked.GetStoragePolicy, asked.GetEnclosingRoot, asked.GetErasureCodingPolicy]
)
def test_who_may_not_reach_a_path_hears_nothing_of_it(
    cluster: SimulatedNameNode, request_class: type[tuple[str]]
) -> None:
    cluster.ask(Mkdirs("/closed/inner", 0o755))
    cluster.ask(SetPermission("/closed", 0o700))
    request = request_class("/closed/inner")  # type: ignore[arg-type]
    cluster.ask(request)
    assert refused(cluster, request, Caller("mallory")) == java.ACCESS_CONTROL
