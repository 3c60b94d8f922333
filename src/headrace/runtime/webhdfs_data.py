"""WebHDFS, the half that moves data: OPEN, CREATE, APPEND and GETFILECHECKSUM.

Owns: the operations' parameters and answers. A DataNode's HTTP port serves it, and a NameNode's
where it proxies. The file's user is the request's `user.name`, or whom it names in `doas`: whether
he may act for that one, the NameNode is asked on every connection. It is the one this node belongs
to, whatever address a redirect named.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import quote

from headrace.base.errors import ProtocolError
from headrace.base.web import JSON, WEBHDFS_PREFIX, WebRequest, WebResponse, WebStream
from headrace.runtime.block_streams import BlockFailed
from headrace.runtime.dfs_client import DfsClient
from headrace.runtime.hadoop_client import RpcUnavailable
from headrace.runtime.web import Stream
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.rpc_calls import RpcUser
from headrace.wire.hadoop.web_refusals import web_body, web_status
from headrace.wire.hadoop.web_users import web_user

_SHORT_MAX, _LONG_MAX = 2**15 - 1, 2**63 - 1
_NUMBER = re.compile(r"[0-9]{1,19}")
_MODE = re.compile(r"[0-7]{1,5}")
_PLAIN_IN_PATHS = "/!'()*,;:$&+=@"
"""What java.net.URI leaves as it is in a path, besides letters, digits and -._~"""

_Operation = Callable[
    [RpcUser, str, dict[str, str], AsyncIterator[bytes]], Awaitable[WebResponse | WebStream]
]


class WebHdfsData:
    def __init__(self, dfs: DfsClient, namenode: tuple[str, int]) -> None:
        self._dfs = dfs
        self._namenode = namenode
        self._operations: dict[tuple[str, str], _Operation] = {
            ("GET", "OPEN"): self._open,
            ("GET", "GETFILECHECKSUM"): self._checksum,
            ("PUT", "CREATE"): self._create,
            ("POST", "APPEND"): self._append,
        }

    def chosen(self, request: WebRequest) -> Stream | None:
        """The stream a request is for: as `runtime.web` asks."""
        if not request.path.startswith(WEBHDFS_PREFIX):
            return None
        operation = (request.method, request.query.get("op", "").upper())
        return self if operation in self._operations else None

    async def __call__(
        self, request: WebRequest, body: AsyncIterator[bytes]
    ) -> WebResponse | WebStream:
        try:
            serve = self._operations.get((request.method, request.query.get("op", "").upper()))
            if serve is None:
                raise _invalid(f"no {request.query.get('op', 'op')} by {request.method} here")
            user = web_user(request.query)
            path = "/" + request.path[len(WEBHDFS_PREFIX) :].rstrip("/")
            return await serve(user, path, request.query, body)
        except RemoteError as error:
            return WebResponse(web_status(error), web_body(error), JSON)
        except (RpcUnavailable, BlockFailed, ProtocolError, OSError) as error:
            told = RemoteError(java.IO, str(error))
            return WebResponse(web_status(told), web_body(told), JSON)

    async def _open(
        self, user: RpcUser, path: str, query: dict[str, str], _: AsyncIterator[bytes]
    ) -> WebStream:
        located = await self._dfs.locate(user, path)
        offset = _number(query, "offset", 0)
        if not 0 <= offset <= located.fileLength:
            raise RemoteError(
                java.IO, f"Offset={offset} out of the range [0, {located.fileLength}]"
            )
        length = _number(query, "length", located.fileLength - offset)
        length = max(0, min(length, located.fileLength - offset))
        return WebStream(200, length, self._dfs.read(located, offset, length))

    async def _create(
        self, user: RpcUser, path: str, query: dict[str, str], body: AsyncIterator[bytes]
    ) -> WebResponse:
        defaults = await self._dfs.server_defaults(user)
        overwrite = query.get("overwrite", "false").lower() == "true"
        request = pb.CreateRequestProto(
            src=path,
            clientName="",
            createFlag=pb.CREATE | (pb.OVERWRITE if overwrite else 0),
            createParent=query.get("createparent", "true").lower() != "false",
            replication=_number(query, "replication", defaults.replication, _SHORT_MAX),
            blockSize=_number(query, "blocksize", defaults.blockSize),
        )
        request.masked.perm = _mode(query.get("permission", "644"))
        await self._dfs.create(user, request, body, defaults)
        host, port = self._namenode
        where = f"hdfs://{host}:{port}{quote(path, _PLAIN_IN_PATHS)}"
        return WebResponse(201, headers={"Location": where})

    async def _append(
        self, user: RpcUser, path: str, _: dict[str, str], body: AsyncIterator[bytes]
    ) -> WebResponse:
        await self._dfs.append(user, path, body)
        return WebResponse(200)

    async def _checksum(
        self, user: RpcUser, path: str, _: dict[str, str], __: AsyncIterator[bytes]
    ) -> WebResponse:
        # Asked by a thread: the client for it is a blocking one.
        algorithm, value = await asyncio.to_thread(_file_checksum, self._namenode, user, path)
        body = {"algorithm": algorithm, "bytes": value.hex(), "length": len(value)}
        return WebResponse(200, json.dumps({"FileChecksum": body}).encode(), JSON)


def _file_checksum(namenode: tuple[str, int], user: RpcUser, path: str) -> tuple[str, bytes]:
    from headrace.client.file_checksum import ChecksumUnavailable, file_checksum
    from headrace.client.namenode import NameNodeClient

    host, port = namenode
    try:
        with NameNodeClient(f"hdfs://{host}:{port}", user) as client:
            found = file_checksum(client, path)
    except ChecksumUnavailable as error:
        raise RemoteError(java.IO, str(error)) from None
    return found.algorithm, found.value


def _number(query: dict[str, str], name: str, default: int, most: int = _LONG_MAX) -> int:
    text = query.get(name, "")
    if text in ("", "null"):
        return default
    number = int(text) if _NUMBER.fullmatch(text) else -1
    if not 0 <= number <= most:
        raise _invalid(f'Invalid value for webhdfs parameter "{name}": {text}')
    return number


def _mode(text: str) -> int:
    mode = int(text, 8) if _MODE.fullmatch(text) else -1
    if not 0 <= mode <= 0o1777:
        raise _invalid(f'Invalid value for webhdfs parameter "permission": {text}')
    return mode


def _invalid(message: str) -> RemoteError:
    return RemoteError(java.ILLEGAL_ARGUMENT, message)
