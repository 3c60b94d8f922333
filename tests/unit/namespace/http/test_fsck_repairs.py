"""`fsck -delete` and `-move`: what is damaged goes or is copied, and nothing else is touched."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.base.promise import Promise
from headrace.base.web import WebRequest
from headrace.namespace.http.fsck import Fsck
from headrace.namespace.http.fsck_repairs import Remains
from headrace.namespace.requests import (
    AllowSnapshot,
    Append,
    CreateSnapshot,
    Delete,
    GetFileInfo,
    Rename2,
    SetPermission,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import ExtendedBlock
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError


class Site:
    """A NameNode with a page for fsck, and a salvage that a test answers."""

    def __init__(self) -> None:
        settings = NamespaceSettings(superuser=SUPERUSER, administrators=frozenset({"ann"}))
        self.cluster = SimulatedNameNode(datanodes=3, settings=settings)
        self.copies: list[tuple[Remains, Promise[str]]] = []
        self.page = Fsck(self.cluster.namenode, lambda _: (), self._salvage)

    def _salvage(self, remains: Remains) -> Promise[str]:
        promise: Promise[str] = Promise()
        self.copies.append((remains, promise))
        return promise

    def begin(self, query: str, user: str = SUPERUSER, path: str = "/") -> Promise[str]:
        words = {"ugi": user, "path": path, **dict.fromkeys(query.split(), "1")}
        answer = self.page(WebRequest("GET", "/fsck", words, "", "10.9.9.9", "nn:9870"))
        assert isinstance(answer, Promise)
        self.turns()
        return answer.map(lambda response: response.body.decode().rstrip())

    def turns(self) -> None:
        for _ in range(1_000):
            self.cluster.settle()
            if not self.cluster.timers.run_due():
                return
        raise AssertionError("turns without end")

    def fsck(self, query: str, user: str = SUPERUSER, path: str = "/") -> str:
        return self.begin(query, user, path).value()

    def lose(self, path: str, number: int = 0) -> None:
        """The replicas of one of a file's blocks."""
        file = self.file(path)
        block_id = file.blocks[number].block_id
        for node in self.cluster.nodes:
            if block_id in node.replicas:
                node.lose(block_id)
        self.cluster.settle()

    def file(self, path: str) -> Any:
        inode_id = self.cluster.ask(GetFileInfo(path)).inode_id
        return self.cluster.ns.inodes[inode_id]

    def is_there(self, path: str) -> bool:
        return self.cluster.ask(GetFileInfo(path)) is not None


@pytest.fixture
def site() -> Site:
    site = Site()
    for path in ("/d/good", "/d/bad", "/d/worse", "/other"):
        site.cluster.write(path, 1024 * 1024, 100)
    for path, number in (("/d/bad", 0), ("/d/worse", 0), ("/d/worse", 1), ("/other", 1)):
        site.lose(path, number)
    return site


def test_without_flags_it_only_looks(site: Site) -> None:
    before = durable_state(site.cluster.ns)
    assert site.fsck("").endswith("is CORRUPT")
    assert durable_state(site.cluster.ns) == before


def test_delete_takes_what_is_damaged_below_the_path(site: Site) -> None:
    told = site.fsck("delete", path="/d")
    assert "/d/bad: DELETED\n/d/worse: DELETED\n" in told
    assert "CORRUPT FILES:\t2" in told
    assert told.endswith("The filesystem under path '/d' is CORRUPT")
    there = {path: site.is_there(path) for path in ("/d/good", "/d/bad", "/d/worse", "/other")}
    assert there == {"/d/good": True, "/d/bad": False, "/d/worse": False, "/other": True}
    assert site.fsck("delete", path="/d").endswith("is HEALTHY")
    assert any("event=fsck_deleted path=/d/bad" in line for line in site.cluster.lines)
    before = durable_state(site.cluster.ns)
    site.cluster.restart()
    assert durable_state(site.cluster.ns) == before, "it was durable when it was told"


@pytest.mark.parametrize("flag", ["delete", "move", "move delete"])
def test_repairs_are_for_superusers(site: Site, flag: str) -> None:
    site.cluster.ask(SetPermission("/d", 0o777))
    told = site.fsck(flag, "eve")
    assert "Superuser privilege is required" in told
    assert told.endswith("Fsck on path '/' FAILED")
    assert site.is_there("/d/bad")
    assert site.copies == []


def test_an_administrator_is_one(site: Site) -> None:
    site.fsck("delete", "ann", "/d")
    assert not site.is_there("/d/bad")


def test_nothing_goes_in_safe_mode(site: Site) -> None:
    site.cluster.namenode.safe_mode.enter()
    told = site.fsck("delete")
    assert "fsck repairs nothing in safe mode" in told
    assert told.endswith("Fsck on path '/' FAILED")
    assert site.is_there("/d/bad")


def test_nothing_is_judged_before_it_was_reported(site: Site) -> None:
    site.cluster.disk.kill()
    site.cluster.open(register=False)
    page = Fsck(site.cluster.namenode, lambda _: (), None)
    site.page = page
    assert site.fsck("delete").endswith("Fsck on path '/' FAILED")
    for node in site.cluster.nodes:
        node.register()
    site.cluster.beat()
    assert site.is_there("/d/good")


def test_a_snapshot_is_not_repaired(site: Site) -> None:
    site.cluster.ask(AllowSnapshot("/d"))
    site.cluster.ask(CreateSnapshot("/d", "s"))
    told = site.fsck("delete", path="/d/.snapshot/s")
    assert told.endswith("Fsck on path '/d/.snapshot/s' FAILED")
    assert site.is_there("/d/bad")


def test_files_that_are_written_stay(site: Site) -> None:
    site.cluster.write("/open", 1024 * 1024, 100)
    site.cluster.ask(Append("/open", "writer"))
    site.lose("/open")
    told = site.fsck("delete openforwrite")
    assert "/open: MISSING" in told
    assert site.is_there("/open")


def test_move_copies_one_after_the_other_and_deletes_nothing(site: Site) -> None:
    answer = site.begin("move", path="/d")
    (first, copied) = site.copies[0]
    assert first == Remains("/d/bad", "/lost+found/d/bad", 0o644, SUPERUSER)
    assert len(site.copies) == 1
    copied.resolve("1 of 2 blocks are in /lost+found/d/bad")
    site.turns()
    assert not answer.settled
    site.copies[1][1].resolve("0 of 2 blocks are in /lost+found/d/worse")
    site.turns()
    assert "/d/bad: MOVED, 1 of 2 blocks are in /lost+found/d/bad\n" in answer.value()
    assert answer.value().endswith("is CORRUPT")
    assert site.is_there("/d/bad")


def test_with_delete_a_file_goes_when_it_was_copied_and_stays_when_not(site: Site) -> None:
    answer = site.begin("move delete", path="/d")
    site.copies[0][1].resolve("all")
    site.turns()
    assert not site.is_there("/d/bad")
    site.copies[1][1].reject(RemoteError(exceptions.IO, "no room"))
    site.turns()
    assert site.is_there("/d/worse")
    told = answer.value()
    assert "/d/worse: not moved: no room\n" in told
    assert told.endswith("fsck encountered internal errors!\n\n\nFsck on path '/d' FAILED")


def renamed(site: Site) -> None:
    site.cluster.ask(Rename2("/d/worse", "/d/elsewhere"))
    site.cluster.write("/d/worse", 100)


def healed(site: Site) -> None:
    file = site.file("/d/worse")
    for block in file.blocks:
        name = ExtendedBlock("", block.block_id, block.generation_stamp, block.num_bytes)
        site.cluster.nodes[0].received(name)


def deleted(site: Site) -> None:
    site.cluster.ask(Delete("/d/worse", False))


@pytest.mark.parametrize(
    ("change", "stays"),
    [(renamed, ["/d/worse"]), (healed, ["/d/worse"]), (deleted, [])],
)
def test_what_changed_since_the_walk_is_looked_at_anew(
    site: Site, change: Callable[[Site], None], stays: list[str]
) -> None:
    answer = site.begin("move delete", path="/d")
    change(site)
    site.copies[0][1].resolve("all")
    site.turns()
    for _, copied in site.copies[1:]:
        copied.resolve("all")
    site.turns()
    assert "/d/bad: DELETED" in answer.value()
    assert [path for path in ["/d/worse"] if site.is_there(path)] == stays
    assert not site.is_there("/d/elsewhere")
