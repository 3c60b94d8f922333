"""The caller on a loop: every call is settled once, whatever happens to the connection."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from tests.wire.hadoop.rpc_peer import Server

from headrace.base.promise import Promise
from headrace.runtime.hadoop_client import RpcClient, RpcUnavailable
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE

TIMEOUT_S = 10.0


async def settled(promise: Promise[Any]) -> Any:
    done = asyncio.Event()
    promise.then(lambda _: done.set())
    async with asyncio.timeout(TIMEOUT_S):
        await done.wait()
    return promise.value()


def run(act: Callable[[RpcClient], Any], port: int, **options: int) -> Any:
    async def main() -> Any:
        loop = asyncio.get_running_loop()
        client = RpcClient(loop, "127.0.0.1", port, "anna", **options)
        try:
            return await act(client)
        finally:
            client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def block_size(client: RpcClient, name: str) -> Promise[Any]:
    request = pb.GetPreferredBlockSizeRequestProto(filename=name)
    return client.call(CLIENT_NAMENODE, "getPreferredBlockSize", request)


def test_many_calls_share_a_connection() -> None:
    async def act(client: RpcClient) -> list[int]:
        calls = [block_size(client, "x" * length) for length in range(50)]
        return [(await settled(call)).bsize for call in calls]

    with Server() as server:
        assert run(act, server.port) == list(range(50))
        assert server.tcp is not None
        assert server.tcp.counters.accepted == 1


def test_a_refusal_and_a_call_behind_it() -> None:
    async def act(client: RpcClient) -> int:
        refused = client.call(CLIENT_NAMENODE, "fsync", pb.FsyncRequestProto(src="a", client="c"))
        with pytest.raises(RemoteError, match="no a"):
            await settled(refused)
        return int((await settled(block_size(client, "four"))).bsize)

    with Server() as server:
        assert run(act, server.port) == 4


def test_a_slow_answer_is_given_up_and_the_next_call_goes_on() -> None:
    async def act(client: RpcClient) -> int:
        late = client.call(CLIENT_NAMENODE, "isFileClosed", pb.IsFileClosedRequestProto(src="x"))
        with pytest.raises(RpcUnavailable, match="no answer in time"):
            await settled(late)
        return int((await settled(block_size(client, "release"))).bsize)

    with Server() as server:
        # Time enough for the second one, also on a machine that stumbles.
        assert run(act, server.port, timeout_ms=2_000) == 7


def test_a_broken_connection_fails_its_calls_and_is_made_again() -> None:
    async def act(client: RpcClient) -> int:
        bug = client.call(
            CLIENT_NAMENODE, "delete", pb.DeleteRequestProto(src="x", recursive=False)
        )
        with pytest.raises(RpcUnavailable, match="closed the connection"):
            await settled(bug)
        return int((await settled(block_size(client, "four"))).bsize)

    with Server() as server:
        assert run(act, server.port) == 4
        assert server.tcp is not None
        assert server.tcp.counters.accepted == 2


def test_a_user_who_may_not_come_in_hears_why() -> None:
    def nobody(real_user: str, user: str) -> None:
        raise RemoteError(java.AUTHORIZATION, f"User: {real_user or user} may not")

    async def act(client: RpcClient) -> None:
        calls = [block_size(client, "x"), block_size(client, "y")]
        for call in calls:
            with pytest.raises(RemoteError, match="User: anna may not") as refused:
                await settled(call)
            assert refused.value.class_name == java.AUTHORIZATION
        assert not client.busy

    with Server() as server:
        server.endpoint.authorize = nobody
        run(act, server.port)
        assert server.methods.calls == []


def test_nobody_there() -> None:
    async def act(client: RpcClient) -> None:
        with pytest.raises(RpcUnavailable, match="can't connect"):
            await settled(block_size(client, "x"))

    run(act, 1)
