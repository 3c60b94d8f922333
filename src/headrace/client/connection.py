"""One blocking connection to one broker.

Owns: the socket, correlation ids, and which version of each API both sides speak (asked
once, by ApiVersions, when the connection opens). Must not know: topics, leaders, retries.
A failed connection is closed and never used again: its owner opens another.

    request   | size int32 | header: key, version, correlation id, client id | body |
    response  | size int32 | header: correlation id                          | body |
"""

import contextlib
import socket
import struct
from typing import TypeVar

from headrace.base.errors import ProtocolError
from headrace.client.errors import ServerError, Unreachable, UnsupportedByServer
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
"""A response larger than this is taken for a peer that does not speak the protocol."""

SOFTWARE_NAME = "headrace"
SOFTWARE_VERSION = "0.1"
"""What ApiVersions tells the server about us (KIP-511); the protocol, not the package."""

RECEIVE_STEP_BYTES = 16 * 1024 * 1024

_SIZE = struct.Struct(">i")
_CORRELATION_AND_ERROR = struct.Struct(">ih")


R = TypeVar("R", bound=Message)


class Connection:
    """Opened by its constructor; `call` sends one request and waits for its answer."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: int,
        connect_timeout_ms: int | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.timeout_ms = timeout_ms
        self._connect_timeout_ms = connect_timeout_ms or timeout_ms
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket = self._connect()
        try:
            self._versions = self._ask_versions()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """The (lowest, highest) version the server serves, by API key."""
        return dict(self._versions)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def version_of(
        self, message: type[Message], version_min: int = 0, version_max: int | None = None
    ) -> int:
        """The highest version both sides speak, within what the caller can express."""
        served = self._versions.get(message.API_KEY)
        name = message.__name__.removesuffix("Request")
        if served is None:
            raise UnsupportedByServer(f"{self.address} does not serve {name}")
        lowest, highest = message.VERSIONS
        lowest = max(lowest, version_min)
        if version_max is not None:
            highest = min(highest, version_max)
        version = min(highest, served[1])
        if version < max(lowest, served[0]):
            raise UnsupportedByServer(
                f"{self.address} serves {name} in versions {served[0]} to {served[1]}, "
                f"this client speaks {lowest} to {highest}"
            )
        return version

    def call(
        self,
        request: Message,
        response_class: type[R],
        *,
        timeout_ms: int | None = None,
        version_min: int = 0,
        version_max: int | None = None,
    ) -> R:
        """Send `request` in the best version and wait for its response."""
        version = self.version_of(type(request), version_min, version_max)
        correlation_id = self._send(request, version)
        frame = self._receive(timeout_ms or self.timeout_ms)
        return self._decode(response_class, frame, version, correlation_id)

    def tell(self, request: Message, *, version_max: int | None = None) -> None:
        """Send a request that has no response (Produce with acks=0)."""
        self._send(request, self.version_of(type(request), 0, version_max))

    def _connect(self) -> socket.socket:
        try:
            sock = socket.create_connection((self.host, self.port), self._connect_timeout_ms / 1000)
        except OSError as error:
            raise Unreachable(f"can't connect to {self.address}: {_reason(error)}") from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sock.getsockname() == sock.getpeername():
            # A free ephemeral port may be chosen for both ends: nobody else is listening.
            sock.close()
            raise Unreachable(f"can't connect to {self.address}: nobody listens there")
        return sock

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        version = ApiVersionsRequest.VERSIONS[1]
        response = self._ask_versions_in(request, version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = {key.api_key: key.max_version for key in response.api_keys}
            version = min(version, known.get(ApiVersionsRequest.API_KEY, 0))
            response = self._ask_versions_in(request, version)
        if response.error_code != 0:
            raise ServerError(f"{self.address} refused ApiVersions", response.error_code)
        return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}

    def _ask_versions_in(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        correlation_id = self._send(request, version)
        frame = self._receive(self._connect_timeout_ms)
        if len(frame) < _CORRELATION_AND_ERROR.size:
            raise self._broken("it answered with a frame too short for ApiVersions")
        _, error_code = _CORRELATION_AND_ERROR.unpack_from(frame)
        if error_code == ErrorCode.UNSUPPORTED_VERSION:
            # A server that does not know our version answers in version 0 (KIP-511).
            version = 0
        return self._decode(ApiVersionsResponse, frame, version, correlation_id)

    def _send(self, request: Message, version: int) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = encode_request(request, version, self._correlation_id, self.client_id)
        try:
            self._socket.settimeout(self.timeout_ms / 1000)
            self._socket.sendall(frame)
        except OSError as error:
            raise self._broken(_reason(error)) from error
        return self._correlation_id

    def _receive(self, timeout_ms: int) -> memoryview:
        try:
            self._socket.settimeout(timeout_ms / 1000)
            (size,) = _SIZE.unpack(self._receive_exactly(_SIZE.size))
            if not 4 <= size <= RESPONSE_BYTES_MAX:
                raise self._broken(f"it sent a frame of {size} bytes; is it a Kafka listener?")
            return self._receive_exactly(size)
        except OSError as error:
            raise self._broken(_reason(error)) from error

    def _receive_exactly(self, size: int) -> memoryview:
        # A peer's word about a size reserves no more than a step: more only as bytes arrive.
        received = bytearray(min(size, RECEIVE_STEP_BYTES))
        filled = 0
        while filled < size:
            if filled == len(received):
                received.extend(bytes(min(size - filled, RECEIVE_STEP_BYTES)))
            with memoryview(received) as view:
                count = self._socket.recv_into(view[filled:])
            if count == 0:
                raise self._broken("it closed the connection")
            filled += count
        return memoryview(received)

    def _decode(
        self, response_class: type[R], frame: memoryview, version: int, correlation_id: int
    ) -> R:
        try:
            answered_id, response = decode_response(response_class, frame, version)
        except ProtocolError as error:
            raise self._broken(f"its answer can't be read: {error}") from error
        if answered_id != correlation_id:
            raise self._broken(f"it answered request {answered_id} instead of {correlation_id}")
        return response

    def _broken(self, reason: str) -> Unreachable:
        self.close()
        return Unreachable(f"lost the connection to {self.address}: {reason}")


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)
