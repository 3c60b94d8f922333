"""The NameNode without its sockets: what the protocol handlers call.

Owns: the order of things. A request is decided on the state, journalled, and answered when its
records are durable; DataNodes' reports change soft state at once.
Must not know: RPC messages, HTTP, processes.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.base.promise import Promise
from headrace.namespace import requests
from headrace.namespace.caller import Caller
from headrace.namespace.datanodes import (
    DatanodeDescriptor,
    HeartbeatAnswer,
    ReceivedDeletedBlock,
    Registration,
    ReportedReplica,
    StorageReport,
)
from headrace.namespace.values import ExtendedBlock, FsStats, LocatedBlock, LocatedBlocks

R = TypeVar("R")
Decide = Callable[[Any, Any, Caller, int], tuple[list[Any], R]]
Read = Callable[[Any, Any, Caller, int], R]


class NameNode:
    # -- clients: the tree. `namenode.execute(mkdirs.decide, requests.Mkdirs(...), caller)` --------
    def execute(self, decide: Decide[R], request: Any, caller: Caller) -> Promise[R]: ...
    def read(self, read: Read[R], request: Any, caller: Caller) -> Promise[R]: ...

    # -- clients: what needs DataNodes ---------------------------------------------------------
    def add_block(self, request: requests.AddBlock, caller: Caller) -> Promise[LocatedBlock]: ...
    def get_block_locations(
        self, request: requests.GetBlockLocations, caller: Caller
    ) -> Promise[LocatedBlocks]: ...
    def get_additional_datanode(
        self, request: requests.GetAdditionalDatanode, caller: Caller
    ) -> Promise[LocatedBlock]: ...
    def complete(self, request: requests.Complete, caller: Caller) -> Promise[bool]: ...
    def append(self, request: requests.Append, caller: Caller) -> Promise[Any]: ...
    def update_block_for_pipeline(
        self, request: requests.UpdateBlockForPipeline, caller: Caller
    ) -> Promise[LocatedBlock]: ...
    def update_pipeline(
        self, request: requests.UpdatePipeline, caller: Caller
    ) -> Promise[None]: ...
    def recover_lease(self, request: requests.RecoverLease, caller: Caller) -> Promise[bool]: ...
    def renew_lease(self, client_name: str) -> None: ...
    def report_bad_blocks(
        self, blocks: Sequence[tuple[ExtendedBlock, Sequence[tuple[str, str]]]]
    ) -> None:
        """Each block with the (DataNode UUID, storage id) of its bad replicas."""

    def fs_stats(self) -> FsStats: ...

    # -- DataNodes -----------------------------------------------------------------------------
    def register_datanode(self, registration: Registration) -> DatanodeDescriptor:
        """RemoteError when refused (IncorrectVersion, DisallowedDatanode)."""
        ...

    def heartbeat(
        self,
        uuid: str,
        reports: Sequence[StorageReport],
        *,
        xceiver_count: int = 0,
        xmits_in_progress: int = 0,
        failed_volumes: int = 0,
        request_full_report_lease: bool = False,
    ) -> HeartbeatAnswer: ...
    def block_report(
        self, uuid: str, storage: StorageReport, replicas: Sequence[ReportedReplica]
    ) -> Promise[None]:
        """A full report of one storage; resolved when all slices are processed."""
        ...

    def incremental_report(
        self, uuid: str, storage: StorageReport, blocks: Sequence[ReceivedDeletedBlock]
    ) -> None: ...
    def error_report(self, uuid: str, error_code: int, message: str) -> None: ...
    def commit_block_synchronization(
        self,
        block: ExtendedBlock,
        new_generation_stamp: int,
        new_length: int,
        *,
        close_file: bool,
        delete_block: bool,
        new_targets: Sequence[tuple[str, str]],
    ) -> Promise[None]: ...
