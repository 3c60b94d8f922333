"""One connection: negotiation, and what a peer can do wrong."""

import contextlib
import socket
import struct
import threading

import pytest
from tests.unit.client.fake_broker import SILENCE, FakeBroker

from headrace.client.connection import RESPONSE_BYTES_MAX, Connection
from headrace.client.errors import Unreachable, UnsupportedByServer
from headrace.wire.kafka.frames import decode_request_header, encode_response
from headrace.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from headrace.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse


def connect(port: int, timeout_ms: int = 2_000) -> Connection:
    return Connection("127.0.0.1", port, client_id="test", timeout_ms=timeout_ms)


def test_calls_use_the_highest_version_of_both_sides(broker: FakeBroker) -> None:
    broker.handlers[HeartbeatRequest] = lambda _request, _version: HeartbeatResponse()
    broker.versions[HeartbeatRequest.API_KEY] = (0, 2)
    connection = connect(broker.port)
    connection.call(HeartbeatRequest(group_id="g"), HeartbeatResponse)
    connection.call(HeartbeatRequest(group_id="g"), HeartbeatResponse, version_max=1)
    connection.close()
    versions = [v for request, v in broker.received if isinstance(request, HeartbeatRequest)]
    assert versions == [2, 1]


def test_an_api_that_is_not_served_is_named(broker: FakeBroker) -> None:
    connection = connect(broker.port)
    with pytest.raises(UnsupportedByServer, match="does not serve Heartbeat"):
        connection.call(HeartbeatRequest(), HeartbeatResponse)
    connection.close()


def test_ranges_without_a_common_version_are_named(broker: FakeBroker) -> None:
    broker.versions[MetadataRequest.API_KEY] = (0, 3)
    connection = connect(broker.port)
    with pytest.raises(UnsupportedByServer, match="versions 0 to 3, this client speaks 5 to"):
        connection.call(MetadataRequest(), MetadataResponse, version_min=5)
    connection.close()


def test_an_older_server_is_asked_again_in_its_version() -> None:
    """A server that does not know our ApiVersions answers error 35 in a body of version 0."""
    keys = [ApiVersion(api_key=18, min_version=0, max_version=2)]
    refusal = encode_response(ApiVersionsResponse(error_code=35, api_keys=keys), 0, 1)
    answer = encode_response(ApiVersionsResponse(api_keys=keys), 2, 2)
    with Script(refusal, answer) as script:
        connection = connect(script.port)
        assert connection.versions == {18: (0, 2)}
        connection.close()
    versions = [decode_request_header(request[4:])[0].api_version for request in script.requests]
    assert versions == [ApiVersionsRequest.VERSIONS[1], 2]


class Script:
    """A listener that answers the first requests of one connection with these bytes."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        self.requests: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = int(self._server.getsockname()[1])

    def __enter__(self) -> "Script":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(5)
        self._server.close()

    def _run(self) -> None:
        connection, _ = self._server.accept()
        with connection, contextlib.suppress(OSError):
            for answer in self._answers:
                self.requests.append(connection.recv(65536))
                connection.sendall(answer)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n", "is it a Kafka listener"),
        (struct.pack(">i", RESPONSE_BYTES_MAX + 1), "is it a Kafka listener"),
        (struct.pack(">i", 100) + b"cut", "closed the connection"),
        (struct.pack(">i", 4) + struct.pack(">i", 1), "too short for ApiVersions"),
        (encode_response(ApiVersionsResponse(), 3, 99), "answered request 99 instead of 1"),
        (struct.pack(">iih", 6, 1, 0), "can't be read"),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_told_in_a_sentence(answer: bytes, reason: str) -> None:
    with Script(answer) as script, pytest.raises(Unreachable, match=reason):
        connect(script.port)


def test_a_silent_peer_costs_the_time_allowed(broker: FakeBroker) -> None:
    broker.handlers[HeartbeatRequest] = lambda _request, _version: SILENCE
    connection = connect(broker.port)
    with pytest.raises(Unreachable, match="no answer in time"):
        connection.call(HeartbeatRequest(), HeartbeatResponse, timeout_ms=50)
    assert connection.closed


def test_nobody_listening_is_unreachable(broker: FakeBroker) -> None:
    port = broker.port
    broker.close()
    with pytest.raises(Unreachable, match=f"can't connect to 127.0.0.1:{port}"):
        connect(port)
