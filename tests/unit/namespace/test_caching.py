"""Cache pools and directives: kept, told by permission, limited; nothing is said to be cached."""

from typing import Any

import pytest

from headrace.namespace.caching import MAX_RELATIVE_EXPIRY_MS, UNLIMITED, CachePool
from headrace.namespace.requests import (
    AddCacheDirective,
    AddCachePool,
    ListCacheDirectives,
    ListCachePools,
    ModifyCacheDirective,
    ModifyCachePool,
    RemoveCacheDirective,
    RemoveCachePool,
    Rename2,
)
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError


@pytest.fixture
def cluster() -> SimulatedNameNode:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/d/a", 100)
    cluster.write("/d/b", 20)
    cluster.write("/d/sub/c", 3)
    cluster.ask(AddCachePool("pool", owner="ann", group="staff", mode=0o750))
    return cluster


def refused(cluster: SimulatedNameNode, request: Any, user: str = SUPERUSER) -> tuple[str, str]:
    with pytest.raises(RemoteError) as caught:
        cluster.ask(request, cluster.caller(user))
    return caught.value.class_name, caught.value.message


def needs(cluster: SimulatedNameNode) -> list[tuple[str, int, int, bool]]:
    listed = cluster.ask(ListCacheDirectives())
    return [(d.directive.path, *d.needs, d.has_expired) for d in listed.directives]


def test_a_pool_has_defaults_and_what_is_given(cluster: SimulatedNameNode) -> None:
    cluster.ask(AddCachePool("other"), cluster.caller(SUPERUSER, "wheel"))
    cluster.ask(ModifyCachePool("pool", limit_bytes=500))
    other, pool = (listed.pool for listed in cluster.ask(ListCachePools()).pools)
    assert other == CachePool(
        "other", SUPERUSER, "wheel", 0o755, UNLIMITED, 1, MAX_RELATIVE_EXPIRY_MS
    )
    assert pool == CachePool("pool", "ann", "staff", 0o750, 500)
    assert [p.pool.name for p in cluster.ask(ListCachePools("other")).pools] == ["pool"]


@pytest.mark.parametrize(
    "request_",
    [
        AddCachePool("pool"),
        AddCachePool("new", limit_bytes=-1),
        AddCachePool("new", mode=-1),
        AddCachePool("new", max_relative_expiry_ms=MAX_RELATIVE_EXPIRY_MS + 1),
        AddCachePool("new", default_replication=2**15),
        ModifyCachePool("none"),
        RemoveCachePool("none"),
        AddCacheDirective("/d", None),
        AddCacheDirective("/d", ""),
        AddCacheDirective("/d", "none"),
        AddCacheDirective(None, "pool"),
        AddCacheDirective("d", "pool"),
        AddCacheDirective("/d/../e", "pool"),
        AddCacheDirective("/d", "pool", 0),
        AddCacheDirective("/d", "pool", 2**15),
        AddCacheDirective("/d", "pool", expiry_ms=-1),
        AddCacheDirective("/d", "pool", expiry_ms=UNLIMITED, is_expiry_relative=True),
        ModifyCacheDirective(0),
        ModifyCacheDirective(7),
        RemoveCacheDirective(-1),
        RemoveCacheDirective(7),
    ],
)
def test_what_cannot_be_is_refused(cluster: SimulatedNameNode, request_: Any) -> None:
    before = durable_state(cluster.ns)
    assert refused(cluster, request_)[0] == exceptions.INVALID_REQUEST
    assert durable_state(cluster.ns) == before


def test_a_pool_needs_a_name(cluster: SimulatedNameNode) -> None:
    assert refused(cluster, AddCachePool(""))[0] == exceptions.IO
    assert refused(cluster, RemoveCachePool(""))[0] == exceptions.IO


def test_directives_tell_what_they_need_and_that_nothing_is_cached(
    cluster: SimulatedNameNode,
) -> None:
    assert cluster.ask(AddCacheDirective("/d/", "pool", 2)) == 1
    assert cluster.ask(AddCacheDirective("/d/sub/c", "pool")) == 2
    assert cluster.ask(AddCacheDirective("/not/there", "pool")) == 3
    assert needs(cluster) == [
        ("/d", 240, 2, False),
        ("/d/sub/c", 3, 1, False),
        ("/not/there", 0, 0, False),
    ]
    assert [tuple(p.needs) for p in cluster.ask(ListCachePools()).pools] == [(243, 3)]
    cluster.ask(Rename2("/d/a", "/not"))
    assert needs(cluster)[0] == ("/d", 40, 1, False)


def test_directives_are_found_by_id_path_and_pool(cluster: SimulatedNameNode) -> None:
    cluster.ask(AddCachePool("other"))
    for path, pool in (("/d", "pool"), ("/d/a", "pool"), ("/d", "other")):
        cluster.ask(AddCacheDirective(path, pool))

    def found(**wanted: Any) -> list[int]:
        listed = cluster.ask(ListCacheDirectives(**wanted)).directives
        return [one.directive.directive_id for one in listed]

    assert found(path="/d") == [1, 3]
    assert found(pool="pool") == [1, 2]
    assert found(directive_id=2) == [2]
    assert found(after_id=1) == [2, 3]
    cluster.ask(RemoveCachePool("pool"))
    assert found() == [3]
    cluster.ask(RemoveCacheDirective(3))
    assert cluster.ask(AddCacheDirective("/d", "other")) == 4


def test_long_lists_come_in_parts(cluster: SimulatedNameNode) -> None:
    for number in range(101):
        cluster.ask(AddCacheDirective(f"/{number}", "pool"))
    first = cluster.ask(ListCacheDirectives())
    assert (len(first.directives), first.has_more) == (100, True)
    second = cluster.ask(ListCacheDirectives(first.directives[-1].directive.directive_id))
    assert ([d.directive.path for d in second.directives], second.has_more) == (["/100"], False)


def test_a_limit_holds_unless_forced(cluster: SimulatedNameNode) -> None:
    cluster.ask(ModifyCachePool("pool", limit_bytes=150))
    assert cluster.ask(AddCacheDirective("/d/a", "pool")) == 1
    kind, message = refused(cluster, AddCacheDirective("/d/b", "pool", 3))
    assert kind == exceptions.INVALID_REQUEST
    assert "would exceed pool pool's remaining capacity of 50 bytes" in message
    assert "exceed" in refused(cluster, ModifyCacheDirective(1, replication=2))[1]
    cluster.ask(ModifyCacheDirective(1, path="/d"))
    cluster.ask(AddCacheDirective("/d/b", "pool", 3, force=True))
    assert [n[1] for n in needs(cluster)] == [120, 60]


def test_directives_expire(cluster: SimulatedNameNode) -> None:
    cluster.ask(ModifyCachePool("pool", max_relative_expiry_ms=10_000))
    too_late = AddCacheDirective("/d", "pool", expiry_ms=10_001, is_expiry_relative=True)
    assert "exceeds the max relative expiration" in refused(cluster, too_late)[1]
    cluster.ask(AddCacheDirective("/d/a", "pool", expiry_ms=5_000, is_expiry_relative=True))
    cluster.ask(AddCacheDirective("/d/b", "pool"))
    cluster.advance(6_000)
    assert needs(cluster) == [("/d/a", 0, 0, True), ("/d/b", 20, 1, False)]
    cluster.ask(ModifyCacheDirective(1, expiry_ms=5_000, is_expiry_relative=True))
    cluster.advance(4_500)
    assert needs(cluster) == [("/d/a", 100, 1, False), ("/d/b", 0, 0, True)]


def test_pools_have_permissions(cluster: SimulatedNameNode) -> None:
    assert cluster.ask(AddCacheDirective("/d", "pool"), cluster.caller("ann")) == 1
    for user in ("bob", "eve"):
        for request in (
            AddCacheDirective("/d", "pool"),
            ModifyCacheDirective(1, replication=2),
            RemoveCacheDirective(1),
            AddCachePool("new"),
            ModifyCachePool("pool", mode=0o777),
            RemoveCachePool("pool"),
        ):
            assert refused(cluster, request, user)[0] == exceptions.ACCESS_CONTROL
    bob, eve = cluster.caller("bob", "staff"), cluster.caller("eve")
    assert len(cluster.ask(ListCacheDirectives(), bob).directives) == 1
    assert cluster.ask(ListCacheDirectives(), eve).directives == ()
    assert cluster.ask(ListCachePools(), bob).pools[0].is_readable
    (hidden,) = cluster.ask(ListCachePools(), eve).pools
    assert (hidden.pool.name, tuple(hidden.needs), hidden.is_readable) == ("pool", (0, 0), False)


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_they_survive_a_restart(cluster: SimulatedNameNode, with_checkpoint: bool) -> None:
    cluster.ask(AddCacheDirective("/d/a", "pool", 2, expiry_ms=5_000, is_expiry_relative=True))
    cluster.ask(AddCacheDirective("/d/b", "pool"))
    cluster.ask(RemoveCacheDirective(2))
    before = durable_state(cluster.ns)
    if with_checkpoint:
        cluster.checkpoint()
    cluster.restart()
    assert durable_state(cluster.ns) == before
    assert before["caching"][0]
    assert cluster.ask(AddCacheDirective("/d/b", "pool")) == 3
