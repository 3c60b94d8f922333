"""Which DataNodes are meant, and whether the rest can hold what they have."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base.errors import HeadraceError
from headrace.client.leaving_nodes import nodes_named, rest_without
from headrace.client.namenode import DatanodeReport

GIB = 1 << 30


def node(number: int, state: str = "normal", used: int = GIB, remaining: int = GIB) -> Any:
    return DatanodeReport(
        name=f"127.0.0.1:{number}",
        host="localhost",
        uuid=f"uuid-{number}",
        state=state,
        capacity=used + remaining,
        used=used,
        remaining=remaining,
        blocks=1,
        last_contact_ms=0,
        rack="/default-rack",
        http="",
    )


class Fake:
    """A NameNode whose DataNodes all live; `replicas` are those of its only block."""

    def __init__(self, nodes: list[Any], replicas: list[int]) -> None:
        self._nodes = nodes
        self._replicas = [f"uuid-{number}" for number in replicas]

    def datanodes(self) -> list[Any]:
        return self._nodes

    def datanode_infos(self) -> list[Any]:
        return [SimpleNamespace(id=SimpleNamespace(datanodeUuid=each.uuid)) for each in self._nodes]

    def blocks_of(self, _: object, __: int) -> list[Any]:
        return [SimpleNamespace(datanodeUuids=self._replicas)]


def objection(nodes: list[Any], replicas: list[int], leaving: list[Any]) -> str | None:
    fake: Any = Fake(nodes, replicas)
    return rest_without(fake, leaving).objection()


def test_a_node_and_a_host_have_names() -> None:
    nodes = [node(1), node(2)]
    for name in ("127.0.0.1:2", "localhost:2"):
        assert nodes_named(name, nodes) == nodes[1:]
    for name in ("127.0.0.1", "localhost"):
        assert nodes_named(name, nodes) == nodes
    with pytest.raises(HeadraceError, match=r"is no DataNode .*: 127.0.0.1:1, 127.0.0.1:2$"):
        nodes_named("127.0.0.1:3", nodes)


def test_whoever_stays_must_hold_every_replica() -> None:
    three = [node(1), node(2), node(3)]
    assert objection(three, [1, 2], three[:1]) is None
    assert "blocks with 3 replicas, and 2 DataNodes would stay" in str(
        objection(three, [1, 2, 3], three[:1])
    )
    assert objection(three, [1], three) == "no DataNode would stay in service"


def test_who_left_already_holds_nothing() -> None:
    nodes = [node(1), node(2), node(3, state="decommissioned")]
    assert objection(nodes, [1, 3], nodes[:1]) is None
    assert "would stay" in str(objection(nodes, [1, 2], nodes[:1]))


def test_bytes_need_room() -> None:
    nodes = [node(1, used=2 * GIB), node(2)]
    assert f"room for {GIB}" in str(objection(nodes, [1], nodes[:1]))
