"""The quick ways through paths find what the thorough ones find, or nothing."""

import contextlib
from functools import partial
from random import Random

import pytest

from headrace.namespace import creating
from headrace.namespace import requests as asked
from headrace.namespace.caller import Caller
from headrace.namespace.paths import _resolve_any, plain_names, resolve, split
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import AclEntry
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode
from headrace.wire.hadoop.exceptions import RemoteError

PARTS = [
    "",
    ".",
    "..",
    ".snapshot",
    ".reserved",
    ".inodes",
    "a",
    "b",
    "c",
    "ä",
    "x:y",
    "n\x00",
    "l",
]
CALLERS = [
    Caller(SUPERUSER),
    Caller("root-like", ("supergroup",)),
    Caller("anna", ("staff",)),
    Caller("bert", ("staff", "guests")),
]


def some_path(rng: Random) -> str:
    parts = rng.choices(PARTS, weights=[1, 1, 1, 1, 1, 1, 9, 9, 9, 3, 1, 1, 2], k=rng.randint(0, 4))
    return rng.choice(["/", "/", "/", "/", ""]) + "/".join(parts)


def test_plain_names_are_those_of_the_path() -> None:
    rng = Random(5)
    plain_count = 0
    for _ in range(5_000):
        path = some_path(rng)
        names = plain_names(path)
        if names is not None:
            plain_count += 1
            assert names == split(path)
            assert not any(name.startswith(".") for name in names)
    assert plain_count > 1_000
    assert plain_names("/a/" * 300) is None
    for odd in ("", "/", "a", "a/b", "/a/", "//a", "/a//b", "/.a", "/.a/b", "/a:/b"):
        assert plain_names(odd) is None


def some_tree(rng: Random) -> SimulatedNameNode:
    settings = NamespaceSettings(superuser=SUPERUSER, max_directory_items=4, max_component_length=4)
    cluster = SimulatedNameNode(settings=settings)
    for _ in range(12):
        path = "/" + "/".join(rng.choices("abcä", k=rng.randint(1, 3)))
        mode = rng.choice([0o755, 0o777, 0o700, 0o711, 0o722, 0o733, 0o770])
        owner, group = rng.choice([("anna", "staff"), ("bert", "guests"), (SUPERUSER, "x")])
        acl = tuple(
            AclEntry(
                rng.choice([0, 1]), 0, rng.randrange(8), rng.choice(["anna", "staff", "guests"])
            )
            for _ in range(2)
        )
        change = rng.choice(
            [
                asked.Mkdirs(path, mode),
                asked.Mkdirs(path, mode),
                asked.Create(path, 0o644, "writer", 1, True, 1, 2**20),
                asked.CreateSymlink("/a", path[:-1] + "l", 0o755, True),
            ]
        )
        for request in (
            change,
            asked.SetPermission(path, mode),
            asked.SetOwner(path, owner, group),
            asked.ModifyAclEntries(path, acl) if rng.random() < 0.3 else change,
        ):
            with contextlib.suppress(RemoteError):
                cluster.ask(request)
    if rng.random() < 0.5:
        cluster.ask(asked.AllowSnapshot("/"))
        cluster.ask(asked.CreateSnapshot("/", "a"))
    return cluster


@pytest.mark.parametrize("seed", range(8))
def test_both_walks_find_the_same(seed: int) -> None:
    rng = Random(seed)
    ns = some_tree(rng).ns
    for _ in range(600):
        path, caller = some_path(rng), rng.choice(CALLERS)
        follow, write, create = (rng.random() < 0.5 for _ in range(3))
        told = []
        for walk in (
            partial(resolve, ns, path, caller, follow=follow, write=write, create=create),
            partial(_resolve_any, ns, path, caller, follow, write, create),
        ):
            try:
                found = walk()
                told.append((found.path, found.names, found.chain, found.inode, found.snapshot_id))
            except RemoteError as error:
                told.append((error.class_name, error.message))
        assert told[0] == told[1], path


def test_a_free_place_is_one_where_a_name_can_be_made() -> None:
    rng = Random(11)
    free_count = refused_count = 0
    for _ in range(25):
        ns = some_tree(rng).ns
        for _ in range(160):
            path = "/" + "/".join(
                rng.choices(["a", "b", "c", "ä", "xyzuv", "l"], k=rng.randint(1, 4))
            )
            caller = rng.choice(CALLERS)
            try:
                resolved = resolve(ns, path, caller, write=True)
                if resolved.inode is not None:
                    raise RemoteError("", "there is something")
                planned = creating.plan(
                    ns, resolved, caller, 0, create_parent=False, parent_mode=None
                )
            except RemoteError:
                refused_count += 1
                assert creating.free_place(ns, path, caller) is None
                continue
            place = creating.free_place(ns, path, caller)
            if place is not None:
                free_count += 1
                assert planned == (ns.last_inode_id + 1, place[0].inode_id, [])
                assert place == (resolved.chain[-1], resolved.name)
            elif caller.user == SUPERUSER:
                assert not resolved.name.isascii()
    assert free_count > 50
    assert refused_count > 100
