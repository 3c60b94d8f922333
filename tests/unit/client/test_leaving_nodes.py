"""Which DataNodes are meant, and whether the rest can hold what they have."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base.errors import HeadraceError
from headrace.client.leaving_nodes import nodes_named, open_files_on, rest_without
from headrace.client.namenode import DatanodeReport
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs

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


class Writing:
    """A NameNode with open files: path → the port of the DataNode that its last block is on."""

    def __init__(self, ports: dict[str, int | None]) -> None:
        self._ports = ports

    def open_files(self) -> Any:
        return ((path, "client", "host") for path in self._ports)

    def block_locations(self, path: str) -> hdfs.LocatedBlocksProto:
        port = self._ports[path]
        if port is None:
            raise RemoteError(java.FILE_NOT_FOUND, f"File does not exist: {path}")
        located = hdfs.LocatedBlocksProto(
            fileLength=0, underConstruction=True, isLastBlockComplete=path == "/done"
        )
        node = located.lastBlock.locs.add()
        node.id.ipAddr, node.id.xferPort = "127.0.0.1", port
        return located


def test_open_files_that_a_node_has_to_wait_for() -> None:
    namenode: Any = Writing({"/a": 1, "/b": 2, "/gone": None, "/done": 1, "/c": 1})
    assert open_files_on(namenode, {"127.0.0.1:1"}) == ["/a", "/c"]
