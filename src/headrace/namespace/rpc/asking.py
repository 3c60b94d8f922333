"""Who answers which request: `ask(namenode, request, caller)` for RPC and HTTP alike.

Owns: the table from requests to the operations of the namespace. Must not know: messages.
"""

from collections.abc import Callable
from typing import Any

from headrace.base.promise import Promise
from headrace.namespace import requests as asked
from headrace.namespace.caller import Caller
from headrace.namespace.namenode import NameNode
from headrace.namespace.ops import (
    abandon_block,
    attributes,
    cache_directive,
    cache_pool,
    concat,
    create,
    create_symlink,
    delete,
    fsync,
    get_file_info,
    get_listing,
    list_open_files,
    mkdirs,
    rename,
    rename_set,
    set_acl,
    set_quota,
    set_xattr,
    snapshot,
    storage_policy,
    truncate,
)
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

Ask = Callable[[NameNode, Any, Caller], Promise[Any]]


def _executes(decide: Any) -> Ask:
    return lambda namenode, request, caller: namenode.execute(decide, request, caller)


class _Reads:
    """A request that changes nothing: answered at once where all that it sees is durable."""

    __slots__ = ("read",)

    def __init__(self, read: Any) -> None:
        self.read = read

    def __call__(self, namenode: NameNode, request: Any, caller: Caller) -> Promise[Any]:
        return namenode.read(self.read, request, caller)


_reads = _Reads


ASKS: dict[type, Ask] = {
    # the tree
    asked.Mkdirs: _executes(mkdirs.decide),
    asked.Delete: _executes(delete.decide),
    asked.Rename: _executes(rename.decide),
    asked.Rename2: _executes(rename.decide2),
    asked.SetPermission: _executes(attributes.decide_permission),
    asked.SetOwner: _executes(attributes.decide_owner),
    asked.SetTimes: _executes(attributes.decide_times),
    asked.SetReplication: _executes(attributes.decide_replication),
    asked.Concat: _executes(concat.decide),
    asked.Truncate: _executes(truncate.decide),
    asked.CreateSymlink: _executes(create_symlink.decide),
    asked.SetQuota: _executes(set_quota.decide),
    asked.SetStoragePolicy: _executes(storage_policy.decide_set),
    asked.UnsetStoragePolicy: _executes(storage_policy.decide_unset),
    asked.RenameSet: _executes(rename_set.decide),
    # access lists and attributes
    asked.ModifyAclEntries: _executes(set_acl.decide_modify),
    asked.RemoveAclEntries: _executes(set_acl.decide_remove),
    asked.RemoveDefaultAcl: _executes(set_acl.decide_remove_default),
    asked.RemoveAcl: _executes(set_acl.decide_remove_all),
    asked.SetAcl: _executes(set_acl.decide_set),
    asked.GetAclStatus: _reads(set_acl.read),
    asked.SetXAttr: _executes(set_xattr.decide_set),
    asked.RemoveXAttr: _executes(set_xattr.decide_remove),
    asked.GetXAttrs: _reads(set_xattr.read),
    asked.ListXAttrs: _reads(set_xattr.read_names),
    # snapshots
    asked.AllowSnapshot: _executes(snapshot.decide_allow),
    asked.DisallowSnapshot: _executes(snapshot.decide_disallow),
    asked.CreateSnapshot: _executes(snapshot.decide_create),
    asked.DeleteSnapshot: _executes(snapshot.decide_delete),
    asked.RenameSnapshot: _executes(snapshot.decide_rename),
    asked.GetSnapshottableDirListing: _reads(snapshot.read_directories),
    asked.GetSnapshotListing: _reads(snapshot.read_snapshots),
    asked.GetSnapshotDiffReport: _reads(snapshot.read_diff),
    asked.GetSnapshotDiffReportListing: _reads(snapshot.read_diff_listing),
    # caching
    asked.AddCachePool: _executes(cache_pool.decide_add),
    asked.ModifyCachePool: _executes(cache_pool.decide_modify),
    asked.RemoveCachePool: _executes(cache_pool.decide_remove),
    asked.ListCachePools: _reads(cache_pool.read),
    asked.AddCacheDirective: _executes(cache_directive.decide_add),
    asked.ModifyCacheDirective: _executes(cache_directive.decide_modify),
    asked.RemoveCacheDirective: _executes(cache_directive.decide_remove),
    asked.ListCacheDirectives: _reads(cache_directive.read),
    # files being written
    asked.Create: _executes(create.decide),
    asked.Append: NameNode.append,
    asked.AddBlock: NameNode.add_block,
    asked.AbandonBlock: _executes(abandon_block.decide),
    asked.GetAdditionalDatanode: NameNode.get_additional_datanode,
    asked.Complete: NameNode.complete,
    asked.Fsync: _executes(fsync.decide),
    asked.UpdateBlockForPipeline: NameNode.update_block_for_pipeline,
    asked.UpdatePipeline: NameNode.update_pipeline,
    asked.RecoverLease: NameNode.recover_lease,
    # reads
    asked.GetFileInfo: _reads(get_file_info.read),
    asked.GetFileLinkInfo: _reads(get_file_info.read_link),
    asked.GetLocatedFileInfo: _reads(get_file_info.read_located),
    asked.GetListing: _reads(get_listing.read),
    asked.GetBlockLocations: NameNode.get_block_locations,
    asked.GetPreferredBlockSize: _reads(get_file_info.read_block_size),
    asked.IsFileClosed: _reads(get_file_info.read_is_closed),
    asked.GetLinkTarget: _reads(get_file_info.read_link_target),
    asked.GetContentSummary: NameNode.get_content_summary,
    asked.GetQuotaUsage: _reads(set_quota.read_usage),
    asked.GetStoragePolicy: _reads(storage_policy.read),
    asked.GetErasureCodingPolicy: _reads(storage_policy.read_coding),
    asked.GetEncryptionZone: _reads(storage_policy.read_zone),
    asked.GetEnclosingRoot: _reads(storage_policy.read_enclosing_root),
    asked.ListOpenFiles: _reads(list_open_files.read),
    asked.CheckAccess: _reads(get_file_info.read_access),
}


def ask(namenode: NameNode, request: Any, caller: Caller) -> Promise[Any]:
    answer = ASKS.get(type(request))
    if answer is None:
        name = type(request).__name__
        raise RemoteError(java.UNSUPPORTED_OPERATION, f"{name} is not served by this NameNode")
    return answer(namenode, request, caller)


def read_of(request_class: type) -> Any:
    """The read that answers such requests; None if something else does."""
    answer = ASKS.get(request_class)
    return answer.read if isinstance(answer, _Reads) else None
