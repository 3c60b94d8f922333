"""concat: the blocks of some files are moved to the end of another, and the files are gone."""

from typing import TYPE_CHECKING

from headrace.namespace import quotas, refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import FileInode
from headrace.namespace.ops.append import as_file, writable_at
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import READ, require, require_parent_write
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import Concat

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", request: Concat, caller: Caller, now_ms: int
) -> tuple[list[Edit], None]:
    if not request.sources:
        raise refusals.java_illegal_argument("No sources given")
    for path in (request.target, *request.sources):
        if path.startswith(("/.reserved/raw", "/.reserved/.inodes")):
            raise refusals.io(f"Concat operation doesn't support .reserved relative path : {path}")
    target = writable_at(ns, request.target, caller)
    if target.writer is not None:
        raise refusals.illegal_argument(
            f"concat: target file {request.target} is under construction"
        )
    sources: dict[int, FileInode] = {}
    for src in request.sources:
        source = _source(ns, src, target, request.target, caller)
        if source.inode_id in sources:
            raise refusals.illegal_argument(f"concat: at least two of the source files are {src}")
        sources[source.inode_id] = source
    added = sum(_added_space(source, target) for source in sources.values())
    quotas.verify(ns, target.parent, 0, added)
    record = edits_pb2.Concat(target_id=target.inode_id, source_ids=sources, time_ms=now_ms)
    return [Edit(concat=record)], None


def _source(
    ns: "Namespace", src: str, target: FileInode, target_path: str, caller: Caller
) -> FileInode:
    resolved = resolve(ns, src, caller, write=True)
    if resolved.inode is not None:
        require(ns, resolved.inode, caller, READ)
        require_parent_write(ns, resolved, caller)
    source = as_file(resolved.inode, src)
    if source.parent is not target.parent:
        raise refusals.illegal_argument(
            f"Source file {src} is not in the same directory with the target {target_path}"
        )
    if ns.holders(source) or source.saved:
        raise refusals.snapshot(f"Concat: the source file {src} is in snapshot")
    if source is target:
        raise refusals.illegal_argument(
            f"concat: the src file {src} is the same with the target file {target_path}"
        )
    if source.writer is not None or not source.blocks:
        raise refusals.illegal_argument(
            f"concat: source file {src} is invalid or empty or underConstruction"
        )
    if source.block_size > target.block_size:
        raise refusals.illegal_argument(
            f"concat: source file {src} has preferred block size {source.block_size} which is "
            f"greater than the target file's preferred block size {target.block_size}"
        )
    return source


def _added_space(source: FileInode, target: FileInode) -> int:
    """Its blocks get the target's replication."""
    return source.length * target.replication - source.space


def replay(ns: "Namespace", record: edits_pb2.Concat) -> None:
    target = ns.file(record.target_id)
    ns.before_change(target)
    before = target.space
    for inode_id in record.source_ids:
        source = ns.file(inode_id)
        blocks, source_space = source.blocks, source.space
        for block in blocks:
            block.file = target
        source.blocks = ()
        ns.charge(source.parent, 0, -source_space)
        ns.detach(source, record.time_ms)
        target.blocks += blocks
    ns.leases.resumable.pop(target.inode_id, None)
    target.modification_time_ms = record.time_ms
    ns.charge(target.parent, 0, target.space - before)
    ns.to_review.append(target)
