"""Cache pools and directives: kept, told by permission, limited; and who holds what in memory."""

from typing import Any

import pytest

from headrace.namespace.caching import MAX_RELATIVE_EXPIRY_MS, NOTHING, UNLIMITED, CachePool
from headrace.namespace.requests import (
    AddCacheDirective,
    AddCachePool,
    Delete,
    GetBlockLocations,
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
    return [(d.directive.path, *d.needs[:2], d.has_expired) for d in listed.directives]


def cached(cluster: SimulatedNameNode) -> list[tuple[int, int]]:
    """Bytes and files that are cached of each directive."""
    return [tuple(d.needs[2:]) for d in cluster.ask(ListCacheDirectives()).directives]


def holders(cluster: SimulatedNameNode, path: str) -> list[str]:
    (block,) = cluster.ask(GetBlockLocations(path, 0, 1000)).blocks
    return sorted(storage.datanode.uuid for storage in block.cached)


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
    assert [tuple(p.needs) for p in cluster.ask(ListCachePools()).pools] == [(243, 3, 0, 0)]
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
    assert (hidden.pool.name, hidden.needs, hidden.is_readable) == ("pool", NOTHING, False)


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


# -- who holds what -----------------------------------------------------------------------------


@pytest.fixture
def roomy(cluster: SimulatedNameNode) -> SimulatedNameNode:
    """Each DataNode may hold 150 bytes."""
    for node in cluster.nodes:
        node.cache_capacity = 150
    cluster.run(2_000)
    return cluster


def test_blocks_are_held_as_often_as_asked_and_that_is_told(roomy: SimulatedNameNode) -> None:
    roomy.ask(AddCacheDirective("/d", "pool", 2))
    assert cached(roomy) == [(0, 0)]
    roomy.run(5_000)
    assert [len(holders(roomy, path)) for path in ("/d/a", "/d/b", "/d/sub/c")] == [2, 2, 0]
    assert cached(roomy) == [(240, 2)]
    assert [tuple(p.needs) for p in roomy.ask(ListCachePools()).pools] == [(240, 2, 240, 2)]
    roomy.ask(ModifyCacheDirective(1, replication=1))
    roomy.run(5_000)
    assert [len(holders(roomy, path)) for path in ("/d/a", "/d/b")] == [1, 1]
    roomy.ask(RemoveCacheDirective(1))
    roomy.run(5_000)
    assert [node.cached for node in roomy.nodes] == [set(), set(), set()]


def test_nobody_holds_more_than_it_has_room_for(roomy: SimulatedNameNode) -> None:
    roomy.write("/d/large", 140)
    roomy.ask(AddCacheDirective("/d", "pool", 3))
    roomy.run(20_000)
    for node in roomy.nodes:
        assert sum(node.replicas[block_id].num_bytes for block_id in node.cached) <= 150
    byte_count, file_count = cached(roomy)[0]
    assert 0 < byte_count < 780
    assert file_count < 3


def test_nothing_of_a_pool_beyond_its_limit_is_held(roomy: SimulatedNameNode) -> None:
    roomy.ask(ModifyCachePool("pool", limit_bytes=110))
    roomy.ask(AddCacheDirective("/d", "pool", force=True))
    roomy.run(5_000)
    assert sorted(len(holders(roomy, path)) for path in ("/d/a", "/d/b")) == [0, 1]


def test_another_holds_it_when_one_is_gone(roomy: SimulatedNameNode) -> None:
    roomy.ask(AddCacheDirective("/d/a", "pool"))
    roomy.run(5_000)
    (first,) = holders(roomy, "/d/a")
    roomy.node(first).is_running = False
    roomy.run(80_000, 5_000)
    (second,) = holders(roomy, "/d/a")
    assert second != first


def test_what_expires_or_is_deleted_is_let_go(roomy: SimulatedNameNode) -> None:
    directive = AddCacheDirective("/d/a", "pool", expiry_ms=60_000, is_expiry_relative=True)
    roomy.ask(directive)
    roomy.ask(AddCacheDirective("/d/b", "pool"))
    roomy.run(5_000)
    assert sum(len(node.cached) for node in roomy.nodes) == 2
    roomy.ask(Delete("/d/b", False))
    roomy.run(100_000, 5_000)
    assert [node.cached for node in roomy.nodes] == [set(), set(), set()]


def test_a_restarted_namenode_hears_who_holds_what(roomy: SimulatedNameNode) -> None:
    roomy.ask(AddCacheDirective("/d/a", "pool"))
    roomy.run(5_000)
    held = holders(roomy, "/d/a")
    roomy.restart()
    roomy.run(20_000)
    assert holders(roomy, "/d/a") == held


def test_a_datanode_that_is_told_in_vain_is_told_again(roomy: SimulatedNameNode) -> None:
    placement, node = roomy.namenode.cache_placement, roomy.namenode.datanodes.get("datanode-0")
    assert node is not None
    node.to_cache = {7: None}
    assert [c.block_ids for c in placement.commands(node, 0)] == [(7,)]
    assert list(placement.commands(node, 5_000)) == []
    assert [c.block_ids for c in placement.commands(node, 10_000)] == [(7,)]
    placement.on_report(node, [7])
    assert list(placement.commands(node, 30_000)) == []
