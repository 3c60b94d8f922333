"""A broker of a few lines, on a thread, that answers as a test says.

`handlers` maps a request class to a function of (request, version) that returns the response,
None to close the connection, or SILENCE to answer nothing. ApiVersions is served from the
handlers; Metadata tells of this one broker and of `topics`.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from headrace.wire.kafka.codec import decode
from headrace.wire.kafka.frames import decode_request_header, encode_response
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Handler = Callable[[Any, int], Message | None]
SILENCE = Message()


class FakeBroker:
    node_id = 1

    def __init__(self) -> None:
        self.handlers: dict[type[Message], Handler] = {
            ApiVersionsRequest: self.api_versions,
            MetadataRequest: self.metadata,
        }
        self.versions: dict[int, tuple[int, int]] = {}
        self.topics: dict[str, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.received: list[tuple[Message, int]] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._spawn(self._accept)

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def requests(self, kind: type[Message]) -> list[Any]:
        return [request for request, _ in self.received if isinstance(request, kind)]

    def close(self) -> None:
        self._closed = True
        # Closing alone does not wake a thread that waits in accept.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(5)

    def drop_connections(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections.clear()

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(prefix := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", prefix)[0])
                header, position = decode_request_header(frame)
                by_key = {kind.API_KEY: kind for kind in self.handlers}
                kind = by_key[header.api_key]
                request, _ = decode(kind, frame, header.api_version, position)
                self.received.append((request, header.api_version))
                response = self.handlers[kind](request, header.api_version)
                if response is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                if response is not SILENCE:
                    connection.sendall(
                        encode_response(response, header.api_version, header.correlation_id)
                    )

    def api_versions(self, _: ApiVersionsRequest, __: int) -> ApiVersionsResponse:
        keys = []
        for kind in self.handlers:
            low, high = self.versions.get(kind.API_KEY, kind.VERSIONS)
            keys.append(ApiVersion(api_key=kind.API_KEY, min_version=low, max_version=high))
        return ApiVersionsResponse(api_keys=keys)

    def metadata(self, request: MetadataRequest, _: int) -> MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            cluster_id="fake",
            controller_id=1,
            topics=[self._topic(str(name)) for name in wanted],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=3, name=name)
        partitions = [
            MetadataResponsePartition(
                partition_index=index, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
            )
            for index in range(self.topics[name])
        ]
        topic_id = self.topic_ids.get(name, bytes(16))
        return MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
