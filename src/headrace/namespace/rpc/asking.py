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
    create,
    delete,
    fsync,
    get_file_info,
    get_listing,
    mkdirs,
    rename,
)
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

Ask = Callable[[NameNode, Any, Caller], Promise[Any]]


def _executes(decide: Any) -> Ask:
    return lambda namenode, request, caller: namenode.execute(decide, request, caller)


def _reads(read: Any) -> Ask:
    return lambda namenode, request, caller: namenode.read(read, request, caller)


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
    asked.CheckAccess: _reads(get_file_info.read_access),
}


def ask(namenode: NameNode, request: Any, caller: Caller) -> Promise[Any]:
    answer = ASKS.get(type(request))
    if answer is None:
        name = type(request).__name__
        raise RemoteError(java.UNSUPPORTED_OPERATION, f"{name} is not served by this NameNode")
    return answer(namenode, request, caller)
