"""What a port of Hadoop RPC bounds: connections, idle and slow peers, the size of an answer."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.wire.hadoop.rpc_peer import (
    CLIENT_ID,
    TIMEOUT_S,
    Raw,
    Server,
    block_size_call,
)

from headrace.base.limits import OPENING_FRAME_BYTES_MAX
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_calls, rpc_frames
from headrace.wire.hadoop.protos import client_namenode_pb2 as client
from headrace.wire.hadoop.protos.ipc_connection_context_pb2 import (
    IpcConnectionContextProto,
    UserInformationProto,
)
from headrace.wire.hadoop.protos.rpc_engine_pb2 import RequestHeaderProto
from headrace.wire.hadoop.protos.rpc_header_pb2 import (
    RPC_PROTOCOL_BUFFER,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
    RpcSaslProto,
)
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE

OPENING = rpc_calls.opening("anna", CLIENT_NAMENODE.java_name, CLIENT_ID)
SECONDS_A_BYTE = 5
PREAMBLE = b"hrpc\x09\x00\x00"
SASL_PREAMBLE = b"hrpc\x09\x00\xdf"
NEGOTIATE = rpc_frames.frame(
    RpcRequestHeaderProto(callId=-33, clientId=CLIENT_ID),
    RpcSaslProto(state=RpcSaslProto.NEGOTIATE),
)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def trickle(server: Server, raw: Raw, data: bytes) -> int:
    """A byte every five seconds; how many it took the server to have enough."""
    assert server.tcp is not None
    received = server.tcp.counters.bytes_received
    for count, byte in enumerate(data, 1):
        raw.send(bytes((byte,)))
        server.await_bytes(received + count)
        server.pass_time(SECONDS_A_BYTE)
        if not server.tcp.connections:
            return count
    return len(data)


@pytest.mark.parametrize(
    "opening",
    [
        pytest.param(OPENING, id="preamble and context"),
        pytest.param(
            SASL_PREAMBLE + NEGOTIATE,
            id="SASL",
        ),
    ],
)
def test_an_opening_that_trickles_in_is_cut_off(server: Server, opening: bytes) -> None:
    with Raw(server.port) as raw:
        assert trickle(server, raw, opening) * SECONDS_A_BYTE <= 65
        assert raw.rest() == b""


@pytest.mark.parametrize("size", [OPENING_FRAME_BYTES_MAX + 1, 1 << 20, 100 << 20])
@pytest.mark.parametrize(
    "before",
    [
        pytest.param(PREAMBLE, id="context"),
        pytest.param(SASL_PREAMBLE, id="SASL"),
        pytest.param(SASL_PREAMBLE + NEGOTIATE, id="context after SASL"),
    ],
)
@pytest.mark.parametrize("is_one_send", [True, False])
def test_a_peer_that_nobody_knows_has_no_large_frame(
    server: Server, before: bytes, size: int, *, is_one_send: bool
) -> None:
    assert server.tcp is not None
    with Raw(server.port) as raw:
        if is_one_send:
            raw.send(before + size.to_bytes(4, "big"))
        else:
            raw.send(before)
            server.await_bytes(len(before))
            raw.send(size.to_bytes(4, "big"))
        rest = raw.rest()
        assert (rest == b"") == (NEGOTIATE not in before), "SUCCESS alone was owed"
    assert server.tcp.pool.private_bytes == 0
    assert server.tcp.counters.protocol_errors == 1


@pytest.mark.parametrize("is_one_send", [True, False])
def test_a_context_has_room_and_a_call_after_it_more(server: Server, *, is_one_send: bool) -> None:
    header = RpcRequestHeaderProto(
        rpcKind=RPC_PROTOCOL_BUFFER,
        rpcOp=RpcRequestHeaderProto.RPC_FINAL_PACKET,
        callId=-3,
        clientId=CLIENT_ID,
        retryCount=-1,
    )
    context = IpcConnectionContextProto(
        userInfo=UserInformationProto(effectiveUser="anna"), protocol="p" * 60_000
    )
    opening = PREAMBLE + rpc_frames.frame(header, context)
    call = block_size_call(1, "x" * 3_000_000)
    with Raw(server.port) as raw:
        if is_one_send:
            raw.send(opening + call)
        else:
            for piece in (opening[:100], opening[100:], call[:100_000], call[100_000:]):
                raw.send(piece)
        answer, body = raw.answer()
        assert answer.callId == 1
        assert client.GetPreferredBlockSizeResponseProto.FromString(body).bsize == 3_000_000


def test_half_read_frames_are_in_one_account(server: Server) -> None:
    """No matter whether they would fit into a shared buffer."""
    assert server.tcp is not None
    call = block_size_call(1, "x" * 1_000_000)
    with ExitStack() as stack:
        held = [stack.enter_context(Raw(server.port)) for _ in range(5)]
        for count, raw in enumerate(held, 1):
            raw.open().send(call[:200_000])
            server.await_bytes(count * (len(OPENING) + 200_000))
        await_account(server, lambda size: 1_000_000 <= size <= 5 * len(call))
        for raw in held:
            raw.send(call[200_000:])
            assert raw.answer()[0].callId == 1
        await_account(server, lambda size: size == 0)


def await_account(server: Server, is_right: Callable[[int], bool]) -> None:
    """The bytes of half-read frames: settled a moment after they came or were answered."""
    assert server.tcp is not None
    deadline = time.monotonic() + TIMEOUT_S
    while not is_right(server.tcp.pool.private_bytes):
        assert time.monotonic() < deadline, server.tcp.pool.private_bytes


def test_a_peer_that_never_begins_is_cut_off(server: Server) -> None:
    with Raw(server.port) as raw, Raw(server.port) as good:
        good.open().send(block_size_call(1))
        good.answer()
        server.pass_time(50)
        good.send(block_size_call(2))
        good.answer()
        server.pass_time(20)
        assert raw.rest() == b""
        good.send(block_size_call(3))
        assert good.answer()[0].callId == 3


def test_an_open_connection_may_be_slow_and_idle_for_its_time() -> None:
    with Server(idle_timeout_ms=300_000) as server, Raw(server.port) as raw:
        raw.open().send(block_size_call(1))
        raw.answer()
        server.pass_time(200)
        call = block_size_call(2)
        assert trickle(server, raw, call) == len(call)
        assert raw.answer()[0].callId == 2
        server.pass_time(290)
        raw.send(block_size_call(3))
        assert raw.answer()[0].callId == 3
        server.pass_time(302)
        assert raw.rest() == b""


def test_no_more_connections_than_allowed() -> None:
    with Server(connections_max=5) as server, ExitStack() as stack:
        held = [stack.enter_context(Raw(server.port)) for _ in range(5)]
        for raw in held:
            raw.open().send(block_size_call(1))
            raw.answer()
        over = [stack.enter_context(Raw(server.port)) for _ in range(3)]
        assert [raw.rest() for raw in over] == [b""] * 3
        assert server.tcp is not None
        assert server.tcp.counters.refused == 3
        for raw in held:
            raw.send(block_size_call(2))
            assert raw.answer()[0].callId == 2
        held[0].socket.close()
        deadline = time.monotonic() + TIMEOUT_S
        while len(server.tcp.connections) == 5:
            assert time.monotonic() < deadline, "its place is not given back"
        with Raw(server.port) as late:
            late.open().send(block_size_call(3))
            assert late.answer()[0].callId == 3


def test_an_answer_that_is_too_large_is_refused_and_costs_nothing_else(server: Server) -> None:
    def ask(call_id: int, size: int) -> bytes:
        request = client.GetLinkTargetRequestProto(path=str(size))
        return rpc_calls.request(call_id, CLIENT_ID, CLIENT_NAMENODE, "getLinkTarget", request)

    with Raw(server.port) as raw:
        raw.open().send(ask(1, rpc_frames.FRAME_BYTES_MAX) + ask(2, 10) + block_size_call(3))
        refused, _ = raw.answer()
        assert refused.callId == 1
        assert refused.status == RpcResponseHeaderProto.ERROR
        assert refused.errorDetail == RpcResponseHeaderProto.ERROR_SERIALIZING_RESPONSE
        assert refused.exceptionClassName == java.RPC_SERVER
        assert f"{rpc_frames.FRAME_BYTES_MAX} are allowed" in refused.errorMsg
        assert [raw.answer()[0].callId for _ in range(2)] == [2, 3]


@pytest.mark.parametrize("retry_count", [-1, 0, 1, 64, 2**31 - 1])
def test_a_call_is_served_whatever_its_count_of_retries(server: Server, retry_count: int) -> None:
    header = RpcRequestHeaderProto(
        rpcKind=RPC_PROTOCOL_BUFFER,
        rpcOp=RpcRequestHeaderProto.RPC_FINAL_PACKET,
        callId=7,
        clientId=CLIENT_ID,
        retryCount=retry_count,
    )
    method = RequestHeaderProto(
        methodName="getPreferredBlockSize",
        declaringClassProtocolName=CLIENT_NAMENODE.java_name,
        clientProtocolVersion=1,
    )
    request = client.GetPreferredBlockSizeRequestProto(filename="four")
    with Raw(server.port) as raw:
        raw.open().send(rpc_frames.frame(header, method, request))
        answer, body = raw.answer()
        assert (answer.callId, answer.retryCount) == (7, retry_count)
        assert client.GetPreferredBlockSizeResponseProto.FromString(body).bsize == 4
    (call,) = server.methods.calls
    assert call.retry_count == retry_count
