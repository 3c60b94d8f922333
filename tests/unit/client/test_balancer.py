"""Which blocks a balancer moves, and which it leaves where they are."""

from headrace.client import balancer
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import hdfs_server_pb2 as server


def node(uuid: str, used: int, capacity: int = 1000, state: int = 0) -> hdfs.DatanodeInfoProto:
    identity = hdfs.DatanodeIDProto(
        ipAddr="127.0.0.1", hostName="h", datanodeUuid=uuid, xferPort=1, infoPort=2, ipcPort=3
    )
    return hdfs.DatanodeInfoProto(id=identity, capacity=capacity, dfsUsed=used, adminState=state)


def block(number: int, size: int, *holders: str) -> server.BlockWithLocationsProto:
    name = hdfs.BlockProto(blockId=number, genStamp=1, numBytes=size)
    return server.BlockWithLocationsProto(block=name, datanodeUuids=holders)


def test_the_share_is_of_each_node_s_capacity_and_who_leaves_does_not_count() -> None:
    nodes = balancer.weigh(
        [node("a", 600), node("b", 0), node("c", 600, capacity=4000), node("d", 9, state=1)]
    )
    assert {one.uuid: one.excess_bytes for one in nodes} == {"a": 400, "b": -200, "c": -200}


def test_balanced_within_the_threshold() -> None:
    nodes = balancer.weigh([node("a", 550), node("b", 450)])
    assert balancer.is_balanced(nodes, 5)
    assert not balancer.is_balanced(nodes, 4.9)
    assert list(balancer.pairs(nodes, 5)) == []
    ((source, target, wanted),) = balancer.pairs(nodes, 1)
    assert (source.uuid, target.uuid, wanted) == ("a", "b", 50)


def test_the_fullest_goes_to_the_emptiest_first() -> None:
    nodes = balancer.weigh([node("a", 900), node("b", 600), node("c", 0), node("d", 300)])
    (first, *_) = balancer.pairs(nodes, 10)
    assert (first[0].uuid, first[1].uuid) == ("a", "c")


def test_moves_stop_when_enough_is_moved_and_keep_replicas_apart() -> None:
    source, target = balancer.weigh([node("a", 500), node("b", 0)])
    blocks = [
        block(1, 100, "a", "b"),  # the target has it
        block(2, 100, "c"),  # the source does not
        block(3, 600, "a"),  # too large for what is wanted
        block(4, 100, "a"),
        block(5, 100, "a", "c"),
        block(6, 100, "a"),
        block(7, 100, "a"),
    ]
    moved = list(balancer.moves(source, target, 250, blocks, lambda _: "/rack"))
    assert [move.block.blockId for move in moved] == [4, 5, 6]
    assert source.excess_bytes == 250 - 300


def test_a_block_keeps_its_racks() -> None:
    racks = {"a": "/r1", "b": "/r2", "c": "/r2"}
    source, target = balancer.weigh([node("a", 500), node("b", 0)])
    blocks = [block(1, 10, "a", "c"), block(2, 10, "a")]
    moved = list(balancer.moves(source, target, 100, blocks, racks.__getitem__))
    assert [move.block.blockId for move in moved] == [2]
