"""All that the NameNode's RPC port serves."""

from collections.abc import Callable

from headrace.namespace.impersonation import Impersonation
from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.batched_listing import batched_listing_handlers
from headrace.namespace.rpc.client_access import ACCESS
from headrace.namespace.rpc.client_admin import AdminCalls
from headrace.namespace.rpc.client_caching import CACHING
from headrace.namespace.rpc.client_files import FILES, lease_handlers
from headrace.namespace.rpc.client_reads import READS
from headrace.namespace.rpc.client_service import service_handlers
from headrace.namespace.rpc.client_snapshots import SNAPSHOTS
from headrace.namespace.rpc.client_tree import FILE_SETS, TREE
from headrace.namespace.rpc.datanode import DatanodeCalls
from headrace.namespace.rpc.datanode_admin import DatanodeAdminCalls
from headrace.namespace.rpc.ha_service import ha_service_handlers
from headrace.namespace.rpc.namenode_protocol import NamenodeCalls
from headrace.namespace.rpc.refresh import serve_reconfiguration, serve_refreshes
from headrace.namespace.rpc.short_ways import short_reads, short_writes
from headrace.namespace.rpc.translation import Callers, Groups, handlers
from headrace.wire.hadoop import rpc_protocols as protocols
from headrace.wire.hadoop.rpc_session import RpcEndpoint


def namenode_endpoint(
    namenode: NameNode,
    groups: Groups,
    on_handler_failure: Callable[[str, BaseException], None],
    *,
    forget_groups: Callable[[], None] = lambda: None,
) -> RpcEndpoint:
    """`forget_groups`: what is remembered of users' groups is to be looked up anew."""
    endpoint = RpcEndpoint(on_handler_failure)
    callers = Callers(groups)
    client = service_handlers(namenode, callers)
    client |= lease_handlers(namenode)
    client |= batched_listing_handlers(namenode, callers)
    client |= AdminCalls(namenode, callers).handlers()
    for table in (TREE, FILES, READS, ACCESS, SNAPSHOTS, CACHING):
        client |= handlers(namenode, callers, table)
    endpoint.serve(
        protocols.CLIENT_NAMENODE,
        client,
        reads=short_reads(namenode, groups),
        writes=short_writes(namenode, groups),
    )
    endpoint.authorize = Impersonation(namenode.ns, groups).require
    endpoint.hold = namenode.journal.hold
    endpoint.serve(protocols.FILE_SET, handlers(namenode, callers, FILE_SETS))
    endpoint.serve(protocols.DATANODE_ADMIN, DatanodeAdminCalls(namenode, callers).handlers())
    datanodes = DatanodeCalls(namenode)
    endpoint.serve(protocols.DATANODE, datanodes.handlers())
    endpoint.on_client_gone = datanodes.on_client_gone
    endpoint.serve(protocols.NAMENODE, NamenodeCalls(namenode, callers).handlers())
    endpoint.serve(protocols.HA_SERVICE, ha_service_handlers(namenode, callers))
    serve_refreshes(endpoint, groups, forget_groups)
    serve_reconfiguration(endpoint, namenode, callers)
    return endpoint
