"""setQuota, getQuotaUsage, getContentSummary: how much is below a directory, and how much may be.

Not served: quotas by storage type. What only snapshots hold is not counted.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

from headrace.namespace import refusals
from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, FileInode, Inode, Quota
from headrace.namespace.paths import resolve
from headrace.namespace.permissions import (
    EXECUTE,
    READ,
    require,
    require_subtree,
    require_superuser,
)
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import GetContentSummary, GetQuotaUsage, SetQuota
from headrace.namespace.values import ContentSummary, QuotaUsage
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

LEAVE = 2**63 - 1
RESET = -1


def decide(
    ns: "Namespace", request: SetQuota, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    require_superuser(ns, caller, "setQuota")
    if request.storage_type is not None:
        raise RemoteError(
            exceptions.UNSUPPORTED_OPERATION, "Quotas by storage type are not supported"
        )
    inode = resolve(ns, request.src, caller, write=True).inode
    for value in (request.namespace_quota, request.space_quota):
        if value < 0 and value != RESET:
            raise refusals.java_illegal_argument(
                f"Illegal value for nsQuota or ssQuota : {request.namespace_quota} and "
                f"{request.space_quota}"
            )
    if inode is None:
        raise refusals.file_not_found(f"Directory does not exist: {request.src}")
    if not isinstance(inode, DirectoryInode):
        raise RemoteError(exceptions.PATH_IS_NOT_DIRECTORY, f"{request.src}: Is not a directory")
    if inode is ns.root and request.namespace_quota == RESET:
        raise refusals.illegal_argument("Cannot clear namespace quota on root.")
    old = inode.quota
    names = old.namespace if old is not None else RESET
    space = old.space if old is not None else RESET
    if request.namespace_quota != LEAVE:
        names = request.namespace_quota
    if request.space_quota != LEAVE:
        space = request.space_quota
    if (names, space) == ((old.namespace, old.space) if old is not None else (RESET, RESET)):
        return [], None
    record = edits_pb2.SetQuota(inode_id=inode.inode_id, namespace_quota=names, space_quota=space)
    return [Edit(set_quota=record)], None


def replay(ns: "Namespace", record: edits_pb2.SetQuota) -> None:
    directory = ns.directory(record.inode_id)
    ns.before_change(directory)
    features = directory.with_features()
    had = features.quota is not None
    if record.namespace_quota == RESET and record.space_quota == RESET:
        features.quota = None
        ns.quota_count -= had
        directory.drop_plain_features()
        return
    quota = Quota(record.namespace_quota, record.space_quota)
    if features.quota is not None:
        quota.namespace_used = features.quota.namespace_used
        quota.space_used = features.quota.space_used
    else:
        quota.namespace_used, quota.space_used = _used(directory)
    features.quota = quota
    ns.quota_count += not had


def _used(top: DirectoryInode) -> tuple[int, int]:
    names = space = 0
    stack: list[Inode] = [top]
    while stack:
        inode = stack.pop()
        names += 1
        if isinstance(inode, DirectoryInode):
            stack += inode.children.values()
        elif isinstance(inode, FileInode):
            space += inode.space
    return names, space


def summing(
    ns: "Namespace", request: GetContentSummary, caller: Caller
) -> Generator[None, None, ContentSummary]:
    """In steps of `dfs.content-summary.limit` inodes: a large tree must not stop everybody.

    What changes meanwhile may be counted as it was or as it is, as in HDFS. What only snapshots
    have is counted with the rest, and once more by itself.
    """
    resolved = resolve(ns, request.src, caller)
    top = resolved.inode
    if top is None:
        raise refusals.does_not_exist(request.src)
    step_size = max(ns.settings.content_summary_limit, 1)
    count = length = files = directories = space = 0
    kept = _Kept(ns)
    stack: list[Inode] = [top]
    while stack:
        count += 1
        if count % step_size == 0:
            yield
        inode = stack.pop()
        if isinstance(inode, DirectoryInode):
            if not resolved.in_snapshot:
                kept.look_at(inode)
            require(ns, inode, caller, READ | EXECUTE)
            directories += 1
            stack += [child.at(resolved.snapshot_id) for child in inode.children.values()]
        elif isinstance(inode, FileInode):
            files += 1
            size = inode.length
            length += size
            space += size * inode.replication if resolved.in_snapshot else inode.space
        else:
            files += 1
    quota = top.quota if isinstance(top, DirectoryInode) else None
    yield from kept.summing(step_size)
    return ContentSummary(
        length=length + kept.length,
        file_count=files + kept.files,
        directory_count=directories + kept.directories,
        quota=-1 if quota is None else quota.namespace,
        space_consumed=space + kept.space,
        space_quota=-1 if quota is None else quota.space,
        snapshot_length=kept.length,
        snapshot_file_count=kept.files,
        snapshot_directory_count=kept.directories,
        snapshot_space_consumed=kept.space,
    )


class _Kept:
    """What left a tree and is seen by snapshots still."""

    def __init__(self, ns: "Namespace") -> None:
        self._ns = ns
        self._seen: set[int] = set()
        self._found: list[Inode] = []
        self.length = self.files = self.directories = self.space = 0

    def look_at(self, directory: DirectoryInode) -> None:
        for saved in directory.saved:
            if isinstance(saved.state, DirectoryInode):
                self._note(saved.state)

    def _note(self, state: DirectoryInode) -> None:
        for child in state.children.values():
            if child.inode_id in self._ns.detached and child.inode_id not in self._seen:
                self._seen.add(child.inode_id)
                self._found.append(child)

    def summing(self, step_size: int) -> Generator[None, None, None]:
        count = 0
        while self._found:
            count += 1
            if count % step_size == 0:
                yield
            inode = self._found.pop()
            if isinstance(inode, DirectoryInode):
                self.directories += 1
                self.look_at(inode)
                self._note(inode)
                continue
            self.files += 1
            if isinstance(inode, FileInode):
                self.length += inode.length
                self.space += inode.length * inode.replication


def read_summary(
    ns: "Namespace", request: GetContentSummary, caller: Caller, _now_ms: int
) -> ContentSummary:
    """All steps at once."""
    steps = summing(ns, request, caller)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            summary: ContentSummary = done.value
            return summary


def read_usage(ns: "Namespace", request: GetQuotaUsage, caller: Caller, now_ms: int) -> QuotaUsage:
    resolved = resolve(ns, request.src, caller, follow=False)
    inode = resolved.inode
    if inode is not None:
        require_subtree(ns, inode, caller, READ | EXECUTE, snapshot_id=resolved.snapshot_id)
    quota = inode.quota if isinstance(inode, DirectoryInode) else None
    if quota is not None:
        return QuotaUsage(quota.namespace_used, quota.namespace, quota.space_used, quota.space)
    summary = read_summary(ns, GetContentSummary(request.src), caller, now_ms)
    names = summary.file_count + summary.directory_count
    names -= summary.snapshot_file_count + summary.snapshot_directory_count
    space = summary.space_consumed - summary.snapshot_space_consumed
    return QuotaUsage(names, -1, space, -1)
