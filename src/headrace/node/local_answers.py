"""Whether a node of a local cluster answers as what it is, and what the file system says.

Owns: the questions and how long an answer may take. Must not know: processes.

A broker answers Metadata with itself among the brokers, a controller knows who leads. A NameNode
answers /health, in safe mode too; a DataNode answers it and is registered.
"""

import json
import socket
from typing import Any

from headrace.client.connection import Connection
from headrace.client.errors import ClientError
from headrace.node.local_plan import BROKER, DATANODE, NAMENODE
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.wire.kafka.messages.metadata import MetadataRequest, MetadataResponse

CONTROLLERS = 2
"""DescribeCluster's type of endpoint."""

ANSWER_TIMEOUT_MS = 1_000
PAGE_BYTES_MAX = 1024 * 1024


def node_answers(node: dict[str, Any]) -> bool:
    """A node as `cluster.json` describes it."""
    role = str(node["role"])
    if role == NAMENODE:
        return health_of(node["http"]) is not None
    if role == DATANODE:
        health = health_of(node["http"])
        return health is not None and health.get("status") != "registering"
    host, _, port = str(node["listen"]).rpartition(":")
    return log_answers(host, int(port), node["id"], is_broker=BROKER in role.split(","))


def listens(address: str) -> bool:
    """Does anybody take connections there, whether or not he answers yet?"""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_TIMEOUT_MS / 1000).close()
    except OSError:
        return False
    return True


def log_answers(host: str, port: int, node_id: int, *, is_broker: bool) -> bool:
    try:
        connection = Connection(host, port, client_id="headrace-up", timeout_ms=ANSWER_TIMEOUT_MS)
    except ClientError:
        return False
    try:
        if is_broker:
            response = connection.call(MetadataRequest(topics=[]), MetadataResponse)
            return any(broker.node_id == node_id for broker in response.brokers)
        asked = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        return connection.call(asked, DescribeClusterResponse).controller_id >= 0
    except ClientError:
        return False
    finally:
        connection.close()


def health_of(address: str) -> dict[str, Any] | None:
    """What /health says, whatever its status; None if nobody answers."""
    answer = http_json("GET", address, "/health")
    return None if answer is None else answer[1]


def http_json(
    method: str, address: str, path: str, timeout_ms: int = ANSWER_TIMEOUT_MS
) -> tuple[int, dict[str, Any]] | None:
    """Status and JSON object of a page of ours; None if there is no such answer.

    By hand, in a dozen lines: the standard library's client would cost each start of a cluster
    more than everything else that the supervisor imports for the file system.
    """
    request = f"{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n"
    request += "Connection: close\r\n\r\n"
    host, _, port = address.rpartition(":")
    received = bytearray()
    try:
        with socket.create_connection((host, int(port)), timeout_ms / 1000) as peer:
            peer.sendall(request.encode("ascii"))
            while len(received) < PAGE_BYTES_MAX:
                chunk = peer.recv(65536)
                if not chunk:
                    break
                received += chunk
    except OSError:
        return None
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    try:
        content = json.loads(body)
        return (int(words[1]), content) if isinstance(content, dict) else None
    except (ValueError, IndexError):
        return None
