"""getBlockLocations: which blocks hold a range of a file, and who has them.

Reading marks the access time, at most once per `dfs.namenode.accesstime.precision`.
"""

from typing import TYPE_CHECKING

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import CURRENT, FileInode
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import READ, require
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import GetBlockLocations
from headrace.namespace.status import located_blocks
from headrace.namespace.values import LocatedBlocks

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace",
    request: GetBlockLocations,
    caller: Caller,
    now_ms: int,
    *,
    may_write: bool = True,
) -> tuple[list[Edit], LocatedBlocks]:
    if request.offset < 0:
        raise refusals.java_illegal_argument(
            "Negative offset is not supported. File: " + request.src
        )
    if request.length < 0:
        raise refusals.java_illegal_argument(
            "Negative length is not supported. File: " + request.src
        )
    resolved = resolve(ns, request.src, caller)
    file = resolved.inode
    if file is None:
        raise refusals.does_not_exist(request.src)
    if not isinstance(file, FileInode):
        raise refusals.file_not_found(f"Path is not a file: {request.src}")
    require(ns, file, caller, READ)
    answer = located_blocks(ns, file, request.offset, request.length, resolved.snapshot_id)
    precision_ms = ns.settings.access_time_precision_ms
    is_due = precision_ms and now_ms > file.access_time_ms + precision_ms
    if not is_due or not may_write or resolved.snapshot_id != CURRENT:
        return [], answer
    record = edits_pb2.SetTimes(
        inode_id=file.inode_id, modification_time_ms=-1, access_time_ms=now_ms
    )
    return [Edit(set_times=record)], answer
