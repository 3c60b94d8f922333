"""At most once: a request that comes again has its effect once and gets its first answer."""

from random import Random
from typing import Any

import pytest

from headrace.namespace import requests
from headrace.namespace.filesystem import Namespace
from headrace.namespace.journal import DOUBT_MS
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import (
    AddCacheDirective,
    AddCachePool,
    AllowSnapshot,
    Append,
    Concat,
    Create,
    CreateSnapshot,
    CreateSymlink,
    Delete,
    DeleteSnapshot,
    Mkdirs,
    ModifyCacheDirective,
    ModifyCachePool,
    RemoveCacheDirective,
    RemoveCachePool,
    RemoveXAttr,
    Rename,
    Rename2,
    RenameSet,
    RenameSnapshot,
    SetXAttr,
    Truncate,
    UpdatePipeline,
)
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import XAttr
from headrace.testing.disk import SimulatedDisk
from headrace.testing.namenode import BLOCK_SIZE, SimulatedNameNode, durable_state
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError


def prepared(disk: SimulatedDisk | None = None) -> SimulatedNameNode:
    cluster = SimulatedNameNode(datanodes=3, disk=disk)
    cluster.ask(Mkdirs("/d", 0o755))
    for name in ("a", "b", "c"):
        cluster.write(f"/{name}", 100)
    cluster.ask(SetXAttr("/a", XAttr(0, "x", b"1"), 1))
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s0"))
    cluster.ask(AddCachePool("pool"))
    cluster.ask(AddCacheDirective("/a", "pool"))
    return cluster


def update_pipeline(cluster: SimulatedNameNode) -> UpdatePipeline:
    cluster.create("/open")
    block = cluster.add_block("/open").block
    renewed = cluster.ask(requests.UpdateBlockForPipeline(block, "writer")).block
    return UpdatePipeline("writer", block, renewed, ("datanode-0",), ("DS-0",))


ONCE: dict[str, Any] = {
    "create": Create("/new", 0o644, "w", requests.CREATE, True, 3, BLOCK_SIZE),
    "append": Append("/a", "w"),
    "rename": Rename("/a", "/z"),
    "rename2": Rename2("/a", "/b", overwrite=True),
    "concat": Concat("/a", ("/b", "/c")),
    "truncate": Truncate("/a", 0, "w"),
    "delete": Delete("/a", False),
    "symlink": CreateSymlink("/a", "/link", 0o755, True),
    "create snapshot": CreateSnapshot("/d", "s1"),
    "delete snapshot": DeleteSnapshot("/d", "s0"),
    "rename snapshot": RenameSnapshot("/d", "s0", "s9"),
    "set xattr": SetXAttr("/a", XAttr(0, "y", b"1"), 1),
    "remove xattr": RemoveXAttr("/a", XAttr(0, "x")),
    "rename set": RenameSet((("/a", "/z"),), ("/b",)),
    "update pipeline": update_pipeline,
    "add cache pool": AddCachePool("new"),
    "modify cache pool": ModifyCachePool("pool", mode=0o700),
    "remove cache pool": RemoveCachePool("pool"),
    "add cache directive": AddCacheDirective("/b", "pool"),
    "modify cache directive": ModifyCacheDirective(1, replication=2),
    "remove cache directive": RemoveCacheDirective(1),
}


def comparable(answer: Any) -> Any:
    """Locations name objects of the process that answered."""
    block = getattr(answer, "block", None)
    return block.block if block is not None else answer


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("between", ["nothing", "restart", "checkpoint"])
def test_a_retry_takes_effect_once(name: str, between: str) -> None:
    cluster = prepared()
    request = ONCE[name](cluster) if callable(ONCE[name]) else ONCE[name]
    caller = cluster.caller()
    first = cluster.ask(request, caller)
    for _ in range(2):
        cluster.advance(DOUBT_MS)
    after = durable_state(cluster.ns)
    if between == "checkpoint":
        cluster.checkpoint()
    if between != "nothing":
        cluster.restart()
    again = cluster.ask(request, caller)
    assert comparable(again) == comparable(first)
    assert durable_state(cluster.ns) == after


def test_a_retry_while_the_first_is_under_way_gets_its_promise() -> None:
    cluster = prepared(SimulatedDisk(defer_syncs=True))
    caller = cluster.caller()
    first = cluster.submit(Delete("/a", False), caller)
    again = cluster.submit(Delete("/a", False), caller)
    assert not first.settled
    cluster.settle()
    assert (first.value(), again.value()) == (True, True)


def test_the_same_call_id_with_another_body_is_another_request() -> None:
    cluster = prepared()
    caller = cluster.caller()
    assert cluster.ask(Delete("/a", False), caller) is True
    assert cluster.ask(Delete("/b", False), caller) is True
    assert cluster.ask(Rename("/c", "/a"), caller) is True


def test_another_call_is_not_a_retry() -> None:
    cluster = prepared()
    cluster.ask(Delete("/a", False))
    assert cluster.ask(Delete("/a", False)) is False


def test_entries_expire() -> None:
    cluster = prepared()
    caller = cluster.caller()
    cluster.ask(Delete("/a", False), caller)
    cluster.clock.advance(cluster.settings.retry_cache_expiry_ms + 1)
    cluster.ask(Delete("/b", False))
    assert len(cluster.ns.retry_cache) == 1
    assert cluster.ask(Delete("/a", False), caller) is False


def test_the_oldest_are_forgotten_when_they_are_old_or_too_many() -> None:
    random = Random(3)
    settings = NamespaceSettings(retry_cache_expiry_ms=50, retry_cache_entries_max=8)
    ns = Namespace(settings)
    expected: list[tuple[tuple[bytes, int], int]] = []
    seen_sizes = set()
    now_ms = 1_000
    for _ in range(3_000):
        # Clocks go back, too, and ids come again.
        now_ms += random.choice((0, 0, 1, 5, 20, 90, -30))
        key = (random.choice((b"a" * 16, b"b" * 16)), random.randrange(20))
        edit = Edit(client_id=key[0], call_id=key[1], request="Delete /a", time_ms=now_ms)
        edit.set_generation_stamp.generation_stamp = 1
        ns.replay(edit)
        expected = [entry for entry in expected if entry[0] != key] + [(key, now_ms)]
        while len(expected) > 8 or expected[0][1] < now_ms - 50:
            expected.pop(0)
        assert [(key, entry.time_ms) for key, entry in ns.retry_cache.items()] == expected
        seen_sizes.add(len(expected))
    assert seen_sizes == set(range(1, 9))


def test_a_refusal_is_not_remembered() -> None:
    cluster = prepared()
    caller = cluster.caller()
    request = Rename2("/none", "/z")
    with pytest.raises(RemoteError) as caught:
        cluster.ask(request, caller)
    assert caught.value.class_name == exceptions.FILE_NOT_FOUND
    cluster.create("/none")
    assert cluster.ask(request, caller) is None
