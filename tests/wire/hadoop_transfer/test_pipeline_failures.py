"""A node of the pipeline goes away in mid-write: what the others and the client are told."""

import os
from collections.abc import Callable

import pytest
from tests.wire.hadoop_transfer.nodes import POOL, Nodes
from tests.wire.hadoop_transfer.peer import Peer, write_request

from headrace.wire.hadoop.transfer import ExtendedBlock

Start = Callable[..., Nodes]
BLOCK = ExtendedBlock(POOL.pool_id, 1, 1001)


@pytest.mark.parametrize(("gone", "expected"), [(1, [0, 1]), (2, [0, 0, 1])])
@pytest.mark.parametrize("idle", [True, False])
def test_acks_name_the_node_that_is_gone(
    start_nodes: Start, gone: int, expected: list[int], idle: bool
) -> None:
    nodes = start_nodes(3)
    data = os.urandom(64512)
    with Peer(nodes[0].address) as peer:
        peer.write_block(write_request(BLOCK, [nodes[1].info, nodes[2].info]))
        for index in range(10):
            peer.packet(data, index * len(data))
        for _ in range(10):
            assert not any(peer.ack().reply)
        # All of them may be through before it is gone: some come after it in any case.
        after = 10 if idle else 25
        for index in range(10, after):
            peer.packet(data, index * len(data))
        nodes.call(nodes[gone].port.close)
        for index in range(after, 30):
            peer.packet(data, index * len(data))
        replies = [list(peer.ack().reply) for _ in range(20)]
        bad = [reply for reply in replies if any(reply)]
        assert bad, replies
        assert bad[0] == expected
        assert nodes.call(lambda: nodes[0].dataset.replicas[1].num_bytes) == 30 * len(data)
