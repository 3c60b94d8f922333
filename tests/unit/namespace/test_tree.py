"""mkdirs, rename, delete, listing: the tree as clients see it."""

import pytest
from tests.unit.namespace.refusing import refused

from headrace.namespace.requests import (
    Delete,
    GetFileInfo,
    GetListing,
    Mkdirs,
    Rename,
    Rename2,
    SetPermission,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError


@pytest.fixture
def cluster() -> SimulatedNameNode:
    return SimulatedNameNode()


def names(cluster: SimulatedNameNode, path: str) -> list[str]:
    return [entry.path for entry in cluster.ask(GetListing(path, b"")).entries]


def test_mkdirs(cluster: SimulatedNameNode) -> None:
    assert cluster.ask(Mkdirs("/a/b/c", 0o700)) is True
    assert cluster.ask(Mkdirs("/a/b/c", 0o755)) is True
    assert cluster.ask(GetFileInfo("/a/b/c")).mode == 0o700
    assert cluster.ask(GetFileInfo("/a/b")).mode == 0o700
    assert cluster.ask(GetFileInfo("/a/b")).children_count == 1
    assert refused(cluster, Mkdirs("/x/y", 0o755, create_parent=False)) == (
        exceptions.FILE_NOT_FOUND
    )
    cluster.create("/f")
    assert refused(cluster, Mkdirs("/f", 0o755)) == exceptions.FILE_ALREADY_EXISTS
    assert refused(cluster, Mkdirs("/f/x", 0o755)) == exceptions.PARENT_NOT_DIRECTORY
    assert refused(cluster, Mkdirs("/.reserved", 0o755)) == exceptions.HADOOP_ILLEGAL_ARGUMENT


def test_listing_by_pages() -> None:
    cluster = SimulatedNameNode(settings=NamespaceSettings(superuser=SUPERUSER, listing_limit=3))
    for name in ("é", "b", "a", "z", "c", "A"):
        cluster.ask(Mkdirs(f"/d/{name}", 0o755))
    seen: list[str] = []
    start_after = b""
    for _ in range(10):
        page = cluster.ask(GetListing("/d", start_after))
        seen += [entry.path for entry in page.entries]
        start_after = seen[-1].encode()
        if not page.remaining_count:
            break
    assert seen == ["é", "A", "a", "b", "c", "z"], "by signed bytes, as HDFS does"
    assert cluster.ask(GetListing("/none", b"")) is None
    garbage = cluster.ask(GetListing("/d", b"bb"))
    assert [entry.path for entry in garbage.entries] == ["c", "z"]


def test_rename2(cluster: SimulatedNameNode) -> None:
    cluster.ask(Mkdirs("/a/b", 0o755))
    cluster.ask(Mkdirs("/c", 0o755))
    cluster.create("/f")
    cluster.create("/g")
    assert refused(cluster, Rename2("/none", "/x")) == exceptions.FILE_NOT_FOUND
    assert refused(cluster, Rename2("/a", "/a/b/c")) == exceptions.IO
    assert refused(cluster, Rename2("/", "/x")) == exceptions.IO
    assert refused(cluster, Rename2("/a", "/")) == exceptions.IO
    assert refused(cluster, Rename2("/a", "/a")) == exceptions.FILE_ALREADY_EXISTS
    assert refused(cluster, Rename2("/f", "/g")) == exceptions.FILE_ALREADY_EXISTS
    assert refused(cluster, Rename2("/f", "/c", overwrite=True)) == exceptions.IO
    assert refused(cluster, Rename2("/c", "/a", overwrite=True)) == exceptions.IO
    assert refused(cluster, Rename2("/f", "/no/f")) == exceptions.FILE_NOT_FOUND
    assert refused(cluster, Rename2("/f", "/g/x")) == exceptions.PARENT_NOT_DIRECTORY
    cluster.ask(Rename2("/f", "/g", overwrite=True))
    assert names(cluster, "/") == ["a", "c", "g"]
    cluster.ask(Rename2("/a/b", "/c", overwrite=True))
    cluster.ask(Rename2("/g", "/a/g"))
    assert names(cluster, "/") == ["a", "c"]
    assert names(cluster, "/a") == ["g"]


def test_old_rename_answers_false(cluster: SimulatedNameNode) -> None:
    cluster.ask(Mkdirs("/a/b", 0o755))
    cluster.ask(Mkdirs("/c/a", 0o755))
    cluster.create("/f")
    for src, dst in [("/none", "/x"), ("/a", "/a/b/x"), ("/f", "/no/f"), ("/a", "/c"), ("/", "/c")]:
        assert cluster.ask(Rename(src, dst)) is False
    assert cluster.ask(Rename("/f", "/f")) is True
    assert cluster.ask(Rename("/f", "/c")) is True, "into the directory"
    assert names(cluster, "/c") == ["a", "f"]


def test_delete(cluster: SimulatedNameNode) -> None:
    cluster.ask(Mkdirs("/a/b/c", 0o755))
    cluster.create("/a/b/f")
    assert cluster.ask(Delete("/none", True)) is False
    assert cluster.ask(Delete("/", True)) is False
    assert refused(cluster, Delete("/a", False)) == exceptions.PATH_IS_NOT_EMPTY_DIRECTORY
    assert cluster.ask(Delete("/a", True)) is True
    assert names(cluster, "/") == []
    assert cluster.ns.leases.by_holder == {}


def test_permissions(cluster: SimulatedNameNode) -> None:
    cluster.ask(Mkdirs("/shared", 0o1777))
    cluster.ask(Mkdirs("/closed/in", 0o700))
    ann, bob = cluster.caller("ann", "users"), cluster.caller("bob", "users")

    def denied(request: object, who: object) -> bool:
        with pytest.raises(RemoteError) as caught:
            cluster.ask(request, who)  # type: ignore[arg-type]
        return caught.value.class_name == exceptions.ACCESS_CONTROL

    assert denied(Mkdirs("/x", 0o755), ann)
    assert denied(GetFileInfo("/closed/in"), ann)
    assert cluster.ask(GetFileInfo("/closed"), ann).mode == 0o700
    assert denied(GetListing("/closed", b""), ann)
    cluster.ask(Mkdirs("/shared/ann/d", 0o755), ann)
    assert cluster.ask(GetFileInfo("/shared/ann")).owner == "ann"
    assert denied(Delete("/shared/ann", True), bob), "sticky"
    assert denied(Rename2("/shared/ann", "/shared/bob"), bob), "sticky"
    assert denied(SetPermission("/shared/ann", 0o777), bob)
    assert cluster.ask(Delete("/shared/ann", True), ann) is True
    member = cluster.caller("carl", "supergroup")
    assert cluster.ask(Mkdirs("/x", 0o755), member) is True


def test_restart_keeps_everything(cluster: SimulatedNameNode) -> None:
    cluster.ask(Mkdirs("/a/b", 0o755))
    cluster.create("/a/f")
    cluster.ask(Rename2("/a/f", "/a/b/g"))
    before = durable_state(cluster.ns)
    cluster.restart()
    assert durable_state(cluster.ns) == before
    cluster.lose_power()
    assert durable_state(cluster.ns) == before
