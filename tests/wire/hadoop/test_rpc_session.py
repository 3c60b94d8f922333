"""The conversation of Hadoop RPC: opening, calls in any order, refusals, and broken peers."""

import struct
from collections.abc import Iterator

import pytest
from tests.wire.hadoop.rpc_peer import CLIENT_ID, Raw, Server, block_size_call, is_closed_call

from headrace.client.hadoop_rpc import BlockingRpcClient
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_calls, rpc_frames
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as client
from headrace.wire.hadoop.protos.ipc_connection_context_pb2 import IpcConnectionContextProto
from headrace.wire.hadoop.protos.rpc_engine_pb2 import RequestHeaderProto
from headrace.wire.hadoop.protos.rpc_header_pb2 import (
    RPC_PROTOCOL_BUFFER,
    RPC_WRITABLE,
    RpcRequestHeaderProto,
    RpcResponseHeaderProto,
    RpcSaslProto,
)
from headrace.wire.hadoop.rpc_calls import RpcUser
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE, HA_SERVICE

FATAL = RpcResponseHeaderProto.FATAL


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def raw(server: Server) -> Iterator[Raw]:
    with Raw(server.port) as connection:
        yield connection


def header(call_id: int, **values: object) -> RpcRequestHeaderProto:
    settings = {"rpcKind": RPC_PROTOCOL_BUFFER, "clientId": CLIENT_ID, "retryCount": 0} | values
    return RpcRequestHeaderProto(callId=call_id, **settings)  # type: ignore[arg-type]


def bsize(body: bytes) -> int:
    return client.GetPreferredBlockSizeResponseProto.FromString(body).bsize


def assert_serves(server: Server) -> None:
    with BlockingRpcClient("127.0.0.1", server.port, "anna") as good:
        request = client.GetPreferredBlockSizeRequestProto(filename="four")
        assert good.call("getPreferredBlockSize", request).bsize == 4


def test_a_call_is_answered_and_its_caller_known(server: Server) -> None:
    with BlockingRpcClient("127.0.0.1", server.port, "anna/host@REALM") as good:
        request = client.GetPreferredBlockSizeRequestProto(filename="four")
        assert good.call("getPreferredBlockSize", request).bsize == 4
    (call,) = server.methods.calls
    assert (call.user, call.address, call.call_id, call.retry_count) == ("anna", "127.0.0.1", 0, 0)
    assert len(call.client_id) == 16


def test_an_opening_byte_by_byte(server: Server, raw: Raw) -> None:
    opening = rpc_calls.opening("anna", CLIENT_NAMENODE.java_name, CLIENT_ID)
    for byte in opening + block_size_call(7):
        raw.send(bytes((byte,)))
    answer, body = raw.answer()
    assert (answer.callId, bsize(body)) == (7, 3)
    assert answer.clientId == CLIENT_ID
    assert_serves(server)


def test_a_client_that_negotiates_is_told_that_simple_will_do(raw: Raw) -> None:
    negotiate = rpc_frames.frame(
        header(rpc_frames.CALL_ID_SASL), RpcSaslProto(state=RpcSaslProto.NEGOTIATE)
    )
    raw.send(b"hrpc\x09\x00\xdf" + negotiate)
    answer, body = raw.answer()
    assert answer.callId == rpc_frames.CALL_ID_SASL & 0xFFFFFFFF
    assert RpcSaslProto.FromString(body).state == RpcSaslProto.SUCCESS
    context = IpcConnectionContextProto()
    context.userInfo.effectiveUser = "anna"
    raw.send(rpc_frames.frame(header(rpc_frames.CALL_ID_CONTEXT), context))
    raw.send(block_size_call(1))
    assert raw.answer()[0].callId == 1


def test_answers_leave_in_the_order_they_are_ready(raw: Raw) -> None:
    raw.open().send(is_closed_call(1) + is_closed_call(2) + block_size_call(3, "release"))
    calls = [raw.answer()[0].callId for _ in range(3)]
    assert sorted(calls) == [1, 2, 3]
    raw.send(is_closed_call(4) + block_size_call(5))
    assert raw.answer()[0].callId == 5
    raw.send(block_size_call(6, "release"))
    assert {raw.answer()[0].callId, raw.answer()[0].callId} == {4, 6}


def test_a_client_with_too_many_calls_in_flight_waits(raw: Raw) -> None:
    raw.open()
    for call_id in range(150):
        raw.send(is_closed_call(call_id))
    raw.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        raw.read(1)


def test_a_ping_is_not_answered(raw: Raw) -> None:
    raw.open().send(rpc_calls.ping(CLIENT_ID) + block_size_call(1))
    assert raw.answer()[0].callId == 1


def test_a_refusal_names_its_java_class(server: Server) -> None:
    with BlockingRpcClient("127.0.0.1", server.port, "anna") as good:
        with pytest.raises(RemoteError, match="no abc") as refused:
            good.call("fsync", client.FsyncRequestProto(src="abc", client="c"))
        assert refused.value.class_name == "java.io.FileNotFoundException"
    assert server.endpoint.refused[java.FILE_NOT_FOUND] == 1


def test_unknown_methods_and_protocols_and_versions_are_refused(raw: Raw) -> None:
    def call(call_id: int, method: str, protocol: str, version: int = 1) -> bytes:
        method_header = RequestHeaderProto(
            methodName=method, declaringClassProtocolName=protocol, clientProtocolVersion=version
        )
        return rpc_frames.frame(header(call_id), method_header, client.MsyncRequestProto())

    name = CLIENT_NAMENODE.java_name
    raw.open()
    raw.send(call(1, "nonsense", name) + call(2, "x", "no.such") + call(3, "fsync", name, 7))
    raw.send(call(4, "getServiceStatus", HA_SERVICE.java_name))
    raw.send(block_size_call(5))
    answers = [raw.answer()[0] for _ in range(5)]
    assert [answer.exceptionClassName for answer in answers] == [
        java.RPC_NO_SUCH_METHOD,
        java.RPC_NO_SUCH_PROTOCOL,
        java.RPC_VERSION_MISMATCH,
        java.RPC_NO_SUCH_PROTOCOL,
        "",
    ]
    assert answers[0].errorDetail == RpcResponseHeaderProto.ERROR_NO_SUCH_METHOD


def test_a_bug_in_a_handler_costs_its_connection_alone(server: Server, raw: Raw) -> None:
    request = client.DeleteRequestProto(src="x", recursive=False)
    raw.open().send(rpc_calls.request(1, CLIENT_ID, CLIENT_NAMENODE, "delete", request))
    assert raw.rest() == b""
    assert_serves(server)
    assert server.tcp is not None
    assert server.tcp.counters.handler_failures == 1


def size(length: int) -> bytes:
    return struct.pack(">i", length)


OPENING = rpc_calls.opening("anna", CLIENT_NAMENODE.java_name, CLIENT_ID)
NEGOTIATE = rpc_frames.frame(header(-33), RpcSaslProto(state=RpcSaslProto.NEGOTIATE))
NEGOTIATED = b"hrpc\x09\x00\xdf" + NEGOTIATE
"""Answered by SUCCESS."""


def sasl(state: "RpcSaslProto.SaslState", method: str = "") -> bytes:
    auths = [RpcSaslProto.SaslAuth(method=method, mechanism="DIGEST-MD5")] if method else []
    return rpc_frames.frame(header(-33), RpcSaslProto(state=state, auths=auths, token=b"t"))


CODES = RpcResponseHeaderProto.RpcErrorCodeProto

FATAL_CASES = {
    "version 10": (b"hrpc\x0a\x00\x00", CODES.Value("FATAL_VERSION_MISMATCH")),
    "an unknown auth protocol": (b"hrpc\x09\x00\x01", CODES.Value("FATAL_UNAUTHORIZED")),
    "a call before the context": (b"hrpc\x09\x00\x00" + block_size_call(1), 12),
    "a call before SASL": (b"hrpc\x09\x00\xdf" + block_size_call(1), 12),
    "the context before SASL": (b"hrpc\x09\x00\xdf" + OPENING[7:], 12),
    "two contexts": (OPENING + OPENING[7:], 12),
    "negotiating twice": (NEGOTIATED + NEGOTIATE, 15),
    "SASL without having asked for it": (b"hrpc\x09\x00\x00" + NEGOTIATE, 15),
    "SASL behind the context": (OPENING + NEGOTIATE, 15),
    "an unknown mechanism": (
        b"hrpc\x09\x00\xdf"
        + rpc_frames.frame(
            header(-33),
            RpcSaslProto(
                state=RpcSaslProto.INITIATE,
                auths=[RpcSaslProto.SaslAuth(method="TOKEN", mechanism="DIGEST-MD5")],
            ),
        ),
        15,
    ),
    "a mechanism after it was told that SIMPLE will do": (
        NEGOTIATED + sasl(RpcSaslProto.INITIATE, "TOKEN"),
        15,
    ),
    "an answer to a challenge that was never made": (
        b"hrpc\x09\x00\xdf" + sasl(RpcSaslProto.RESPONSE),
        15,
    ),
    "an answer instead of the context": (
        NEGOTIATED + sasl(RpcSaslProto.RESPONSE),
        15,
    ),
    "an answer among calls": (OPENING + sasl(RpcSaslProto.RESPONSE), 15),
    "a server's word from a client": (
        NEGOTIATED + sasl(RpcSaslProto.SUCCESS),
        15,
    ),
    "wrapping without having negotiated": (
        OPENING + rpc_frames.frame(header(-33), RpcSaslProto(state=RpcSaslProto.WRAP)),
        15,
    ),
    "no user": (rpc_calls.opening("", "x", CLIENT_ID), 15),
    "a user that is no text": (
        rpc_calls.opening("QQ", "x", CLIENT_ID).replace(b"QQ", b"\xff\xfe"),
        15,
    ),
    "a ping before the context": (b"hrpc\x09\x00\x00" + rpc_calls.ping(CLIENT_ID), 12),
    "an unknown negative call id": (OPENING + rpc_frames.frame(header(-7)), 12),
    "a header longer than its frame": (OPENING + size(2) + b"\x7f\x01", 12),
    "a header of no sense": (OPENING + size(3) + b"\x02\xff\xff", 12),
    "a header without its required fields": (OPENING + size(3) + b"\x02\x08\x02", 12),
    "an endless varint": (OPENING + size(8) + b"\xff" * 8, 12),
    "another rpc kind": (OPENING + rpc_frames.frame(header(1, rpcKind=RPC_WRITABLE)), 12),
    "another operation": (
        OPENING + rpc_frames.frame(header(1, rpcOp=RpcRequestHeaderProto.RPC_CLOSE_CONNECTION)),
        12,
    ),
    "a client id of three bytes": (OPENING + rpc_frames.frame(header(1, clientId=b"abc")), 12),
    "a call without its method": (OPENING + rpc_frames.frame(header(1)), 13),
    "a request of another kind": (
        OPENING
        + rpc_calls.request(
            1, CLIENT_ID, CLIENT_NAMENODE, "fsync", client.GetFsStatusRequestProto()
        ),
        13,
    ),
}


@pytest.mark.parametrize("name", FATAL_CASES)
def test_what_breaks_the_protocol_is_told_why_and_closed(
    server: Server, raw: Raw, name: str
) -> None:
    data, code = FATAL_CASES[name]
    raw.send(data)
    answer, _ = raw.answer()
    if data.startswith(NEGOTIATED):
        assert answer.status == RpcResponseHeaderProto.SUCCESS
        answer, _ = raw.answer()
    assert (answer.status, answer.errorDetail) == (FATAL, code), answer
    assert answer.exceptionClassName
    assert answer.errorMsg
    assert raw.rest() == b""
    assert_serves(server)


@pytest.mark.parametrize(
    "data",
    [
        b"krpc\x09\x00\x00",
        OPENING + size(-1),
        OPENING + size(0),
        OPENING + size(rpc_frames.FRAME_BYTES_MAX + 1),
        OPENING + size(2**31 - 1),
    ],
)
def test_bytes_that_nobody_could_answer_close_the_connection(
    server: Server, raw: Raw, data: bytes
) -> None:
    raw.send(data)
    assert raw.rest() == b""
    assert_serves(server)


def test_an_old_client_reads_the_refusal_of_its_version(raw: Raw) -> None:
    raw.send(b"hrpc\x07\x00\x00")
    answer = raw.rest()
    assert struct.unpack_from(">ii", answer) == (-1, -1)
    assert b"RPC$VersionMismatch" in answer
    assert b"cannot communicate with client version 7" in answer


def test_a_web_browser_is_shown_another_door(raw: Raw) -> None:
    raw.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert raw.rest().startswith(b"HTTP/1.1 404 Not Found\r\n")


def test_calls_before_the_broken_one_are_answered(raw: Raw) -> None:
    raw.open().send(block_size_call(1) + rpc_frames.frame(header(-7)))
    assert raw.answer()[0].callId == 1
    assert raw.answer()[0].status == FATAL


def test_a_real_user_who_may_not_is_told_before_his_first_call(server: Server) -> None:
    def nobody(real_user: str, user: str) -> None:
        if real_user:
            raise RemoteError(java.AUTHORIZATION, f"User: {real_user} may not be {user}")

    server.endpoint.authorize = nobody
    request = client.GetPreferredBlockSizeRequestProto(filename="four")
    for _ in range(20):
        with (
            BlockingRpcClient("127.0.0.1", server.port, RpcUser("anna", real="eve")) as eve,
            pytest.raises(RemoteError, match="User: eve may not be anna") as refused,
        ):
            eve.call("getPreferredBlockSize", request)
        assert refused.value.class_name == java.AUTHORIZATION
    assert server.methods.calls == []
    assert_serves(server)


@pytest.mark.parametrize("call_id", [0, 1, 127, 128, 300_000, 2**31 - 1])
@pytest.mark.parametrize("retry_count", [-1, 0, 1, 77, 2**31 - 1])
@pytest.mark.parametrize("client_id", [b"", CLIENT_ID])
def test_the_header_written_by_hand_is_that_of_the_message(
    call_id: int, retry_count: int, client_id: bytes
) -> None:
    response = client.GetPreferredBlockSizeResponseProto(bsize=3)
    header = RpcResponseHeaderProto(
        callId=call_id,
        status=RpcResponseHeaderProto.SUCCESS,
        clientId=client_id,
        retryCount=retry_count,
    )
    answer = rpc_frames.answer(call_id, client_id, retry_count, response)
    assert answer == rpc_frames.frame(header, response)


@pytest.mark.parametrize("call_id", [0, 63, 64, 300_000, 2**31 - 1])
@pytest.mark.parametrize("retry_count", [-1, 0, 5, 63])
def test_the_header_of_a_plain_call_is_read_by_hand(call_id: int, retry_count: int) -> None:
    message = header(call_id, rpcOp=RpcRequestHeaderProto.RPC_FINAL_PACKET, retryCount=retry_count)
    frame = memoryview(rpc_frames.frame(message) + b"rest")[4:]
    assert rpc_frames.take_call(frame) == (call_id, CLIENT_ID, retry_count, len(frame) - 4)


@pytest.mark.parametrize(
    "values",
    [
        {"retryCount": 64},
        {"rpcKind": RPC_WRITABLE},
        {"rpcOp": RpcRequestHeaderProto.RPC_CLOSE_CONNECTION},
        {"clientId": b"short"},
        {"stateId": 7},
    ],
)
def test_any_other_header_is_left_to_the_message(values: dict[str, object]) -> None:
    settings = {"rpcOp": RpcRequestHeaderProto.RPC_FINAL_PACKET} | values
    frame = memoryview(rpc_frames.frame(header(1, **settings)) + bytes(64))[4:]
    assert rpc_frames.take_call(frame) is None


def test_a_negative_call_id_is_no_plain_call() -> None:
    message = header(-4, rpcOp=RpcRequestHeaderProto.RPC_FINAL_PACKET)
    assert rpc_frames.take_call(memoryview(rpc_frames.frame(message) + bytes(64))[4:]) is None


@pytest.mark.parametrize(
    "call_id", [0, 1, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**27 - 1, 2**27, 2**31 - 1]
)
def test_the_header_of_a_known_client_is_read_as_that_of_any(call_id: int) -> None:
    message = header(call_id, rpcOp=RpcRequestHeaderProto.RPC_FINAL_PACKET, retryCount=0)
    frame = rpc_frames.frame(message)[4:] + b"rest"
    tail, _ = rpc_frames.tails(CLIENT_ID)
    assert rpc_frames.take_repeated_call(frame, tail) == (call_id, len(frame) - 4)


@pytest.mark.parametrize(
    "number",
    [
        b"",
        b"\x01",
        b"\x02\x02",
        b"\x82\x82",
        b"\x82\x02\x02",
        b"\x82" * 3,
        b"\x80\x80\x80\x80\x10",
        b"\x80" * 5 + b"\x02",
        b"\x80" * 9 + b"\x02",
    ],
)
def test_a_call_id_that_is_no_number_of_its_length_is_not_read(number: bytes) -> None:
    tail, _ = rpc_frames.tails(CLIENT_ID)
    body = b"\x08\x02\x10\x00\x18" + number + tail
    taken = rpc_frames.take_repeated_call(bytes((len(body),)) + body + b"rest", tail)
    assert taken[0] == -1


def test_a_call_id_of_more_than_32_bits_is_left_to_the_message() -> None:
    body = b"\x08\x02\x10\x00\x18\x80\x80\x80\x80\x10\x22\x10" + CLIENT_ID + b"\x28\x00"
    assert rpc_frames.take_call(memoryview(bytes((len(body),)) + body + bytes(64))) is None


@pytest.mark.parametrize("value", [-1, -128, -129, -(2**40)])
def test_no_varint_of_less_than_nothing(value: int) -> None:
    with pytest.raises(ValueError, match="no varint"):
        rpc_frames.varint(value)
