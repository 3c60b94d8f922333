"""getBatchedListing: the listings of several directories in one call.

A cursor (BatchedListingKeyProto) tells which of the asked paths comes next and behind which name;
it carries a digest of the paths, so that it is refused for others.
"""

import hashlib
from collections.abc import Sequence

from google.protobuf.message import DecodeError

from headrace.base.promise import Promise
from headrace.namespace import requests
from headrace.namespace.caller import Caller
from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.asking import ask
from headrace.namespace.rpc.shapes import status_message
from headrace.namespace.rpc.translation import Callers
from headrace.namespace.values import DirectoryListing
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.rpc_session import Handler, RpcCall

_PATHS_MAX = 100


def batched_listing_handlers(namenode: NameNode, callers: Callers) -> dict[str, Handler]:
    def handle(
        request: pb.GetBatchedListingRequestProto, call: RpcCall
    ) -> Promise[pb.GetBatchedListingResponseProto]:
        return BatchedListing(namenode, request, callers.of(call)).start()

    return {"getBatchedListing": handle}


def _digest(paths: Sequence[str]) -> bytes:
    return hashlib.md5("\0".join(paths).encode(), usedforsecurity=False).digest()


class BatchedListing:
    """One call: path after path until the answer is full."""

    def __init__(
        self, namenode: NameNode, request: pb.GetBatchedListingRequestProto, caller: Caller
    ) -> None:
        self._namenode = namenode
        self._caller = caller
        self._paths = list(request.paths)
        self._need_location = request.needLocation
        self._left = namenode.settings.listing_limit
        self._digest = _digest(self._paths)
        self._index, self._start_after = self._begin(request.startAfter)
        self._listings: list[hdfs.BatchedDirectoryListingProto] = []
        self._answer: Promise[pb.GetBatchedListingResponseProto] = Promise()

    def _begin(self, cursor: bytes) -> tuple[int, bytes]:
        if len(self._paths) > _PATHS_MAX:
            raise RemoteError(
                java.HADOOP_ILLEGAL_ARGUMENT, f"Too many source paths: {len(self._paths)}"
            )
        if not cursor:
            return 0, b""
        key = hdfs.BatchedListingKeyProto()
        try:
            key.ParseFromString(cursor)
        except DecodeError:
            key.Clear()
        if key.checksum != self._digest or key.pathIndex >= len(self._paths):
            raise RemoteError(java.IO, "the cursor belongs to another listing")
        return key.pathIndex, key.startAfter

    def start(self) -> Promise[pb.GetBatchedListingResponseProto]:
        self._next()
        return self._answer

    def _next(self) -> None:
        if self._index >= len(self._paths):
            self._end(has_more=False)
        elif self._left <= 0:
            self._end(has_more=True)
        else:
            path = self._paths[self._index]
            request = requests.GetListing(path, self._start_after, self._need_location)
            ask(self._namenode, request, self._caller).then(self._on_part)

    def _on_part(self, settled: Promise[DirectoryListing | None]) -> None:
        error = settled.error
        if error is None and settled.value() is None:
            path = self._paths[self._index]
            error = RemoteError(java.FILE_NOT_FOUND, f"Path {path} does not exist")
        if isinstance(error, RemoteError):
            self._listings.append(
                hdfs.BatchedDirectoryListingProto(
                    parentIdx=self._index,
                    exception=hdfs.RemoteExceptionProto(
                        className=error.class_name, message=error.message
                    ),
                )
            )
            self._advance()
        elif error is not None:
            self._answer.reject(error)
            return
        else:
            self._take(settled.value())
        self._next()

    def _take(self, listing: DirectoryListing | None) -> None:
        assert listing is not None
        entries = listing.entries[: self._left]
        self._listings.append(
            hdfs.BatchedDirectoryListingProto(
                partialListing=[status_message(entry) for entry in entries],
                parentIdx=self._index,
            )
        )
        self._left -= len(entries)
        if listing.remaining_count or len(entries) < len(listing.entries):
            self._start_after = entries[-1].path.encode()
        else:
            self._advance()

    def _advance(self) -> None:
        self._index += 1
        self._start_after = b""

    def _end(self, *, has_more: bool) -> None:
        cursor = b""
        if has_more:
            cursor = hdfs.BatchedListingKeyProto(
                checksum=self._digest, pathIndex=self._index, startAfter=self._start_after
            ).SerializeToString()
        self._answer.resolve(
            pb.GetBatchedListingResponseProto(
                listings=self._listings, hasMore=has_more, startAfter=cursor
            )
        )
