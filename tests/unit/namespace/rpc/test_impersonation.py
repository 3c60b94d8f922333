"""A connection's real user: a superuser acts for anybody, anybody else for himself alone."""

import pytest

from headrace.base.errors import ProtocolError
from headrace.namespace.rpc.endpoint import namenode_endpoint
from headrace.namespace.settings import NamespaceSettings
from headrace.testing.namenode import SUPERUSER, SimulatedNameNode
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop import rpc_calls, rpc_frames
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos.acl_pb2 import FsPermissionProto
from headrace.wire.hadoop.protos.rpc_header_pb2 import RpcResponseHeaderProto
from headrace.wire.hadoop.rpc_calls import RpcUser
from headrace.wire.hadoop.rpc_protocols import CLIENT_NAMENODE
from headrace.wire.hadoop.rpc_session import RpcSession

CLIENT_ID = bytes(range(16))
GROUPS = {"eve": ("staff",), "pia": ("staff", "supergroup")}


class Wire:
    """A transport that keeps what is sent."""

    peer = "10.9.9.9:50000"

    def __init__(self) -> None:
        self.sent = b""

    def send(self, parts: list[bytes]) -> None:
        self.sent += b"".join(parts)

    def close(self, reason: str) -> None:
        raise AssertionError(reason)

    def resume(self) -> None:
        raise AssertionError("never so many calls in flight")


@pytest.fixture
def cluster() -> SimulatedNameNode:
    return SimulatedNameNode(
        settings=NamespaceSettings(superuser=SUPERUSER, administrators=frozenset({"ada"}))
    )


def opened(cluster: SimulatedNameNode, user: RpcUser) -> tuple[RpcSession, Wire]:
    def on_failure(_: str, error: BaseException) -> None:
        raise error

    endpoint = namenode_endpoint(cluster.namenode, lambda name: GROUPS.get(name, ()), on_failure)
    wire = Wire()
    session = RpcSession(endpoint, wire)
    opening = rpc_calls.opening(user, CLIENT_NAMENODE.java_name, CLIENT_ID)
    session.on_preamble(opening[:7])
    try:
        session.on_frame(memoryview(opening[11:]))
    finally:
        session.on_read_end()
    return session, wire


@pytest.mark.parametrize(
    "user",
    [
        RpcUser("ann"),
        RpcUser("ann", real="ann"),
        RpcUser("ann", real="ann/host@REALM"),
        RpcUser("ann", real=SUPERUSER),
        RpcUser("ann", real="ada"),
        RpcUser("ann", real="pia"),
    ],
)
def test_who_may_is_the_user_he_names(cluster: SimulatedNameNode, user: RpcUser) -> None:
    session, wire = opened(cluster, user)
    assert wire.sent == b""
    request = pb.MkdirsRequestProto(
        src="/ann", masked=FsPermissionProto(perm=0o755), createParent=True
    )
    call = rpc_calls.request(1, CLIENT_ID, CLIENT_NAMENODE, "mkdirs", request)
    session.on_frame(memoryview(call[4:]))
    session.on_read_end()
    cluster.settle()
    header, _ = rpc_frames.take_message(RpcResponseHeaderProto, memoryview(wire.sent)[4:], 0)
    assert header.exceptionClassName == java.ACCESS_CONTROL
    assert "user=ann" in header.errorMsg


@pytest.mark.parametrize(
    ("real", "wanted"), [("eve", "ann"), ("eve", SUPERUSER), ("dr.who", "eve"), ("ann@X", "eve")]
)
def test_who_may_not_does_not_come_in(cluster: SimulatedNameNode, real: str, wanted: str) -> None:
    with pytest.raises(ProtocolError, match="is not allowed to impersonate"):
        opened(cluster, RpcUser(wanted, real=real))


def test_he_is_told_as_java_would(cluster: SimulatedNameNode) -> None:
    wire = Wire()
    endpoint = namenode_endpoint(cluster.namenode, lambda _: (), lambda _, __: None)
    session = RpcSession(endpoint, wire)
    opening = rpc_calls.opening(
        RpcUser(SUPERUSER, real="eve"), CLIENT_NAMENODE.java_name, CLIENT_ID
    )
    session.on_preamble(opening[:7])
    with pytest.raises(ProtocolError):
        session.on_frame(memoryview(opening[11:]))
    header, _ = rpc_frames.take_message(RpcResponseHeaderProto, memoryview(wire.sent)[4:], 0)
    assert header.status == RpcResponseHeaderProto.FATAL
    assert header.errorDetail == RpcResponseHeaderProto.FATAL_UNAUTHORIZED
    assert header.callId == rpc_frames.CALL_ID_CONTEXT & 0xFFFFFFFF
    assert header.exceptionClassName == (
        "org.apache.hadoop.security.authorize.AuthorizationException"
    )
    assert header.errorMsg == f"User: eve is not allowed to impersonate {SUPERUSER}"
