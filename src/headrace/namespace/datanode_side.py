"""What DataNodes say and are told: registration, heartbeats, reports, copies, deletions.

Owns: who is alive, which commands a heartbeat carries, the rounds that look for lost nodes and
missing replicas. Must not know: RPC messages, the tree beyond blocks.

Invariants: a DataNode that was silent for `datanode_dead_ms` holds nothing that counts; no
command that deletes or copies leaves in safe mode.
"""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base.promise import Promise
from headrace.namespace import refusals, reports
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.cache_placement import CachePlacement
from headrace.namespace.cache_placement import forget as forget_cached
from headrace.namespace.datanodes import (
    STORAGE_FAILED,
    AdminState,
    BalancerBandwidthCommand,
    BlockName,
    Command,
    DatanodeDescriptor,
    HeartbeatAnswer,
    InvalidateCommand,
    ReceivedDeletedBlock,
    RecoverCommand,
    RegisterCommand,
    Registration,
    ReportedReplica,
    StorageInfo,
    StorageReport,
    TransferCommand,
)
from headrace.namespace.leaving import Hosts, LeavingNodes
from headrace.namespace.placement import choose_targets
from headrace.namespace.service import NamespaceService
from headrace.namespace.values import ExtendedBlock
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.versions import SOFTWARE_VERSION, is_older, too_old

_BLOCKS_PER_ROUND_PER_NODE = 32
_TRANSFERS_PER_HEARTBEAT_MAX = 64
_CACHE_LOOK_MS = 1_000


class DatanodeSide(NamespaceService):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.hosts = Hosts()
        self.leaving = LeavingNodes(self.blocks)
        self.cache_placement = CachePlacement(self.ns, self.datanodes, self.random)

    rack_of: Callable[[str, str, int], str] | None = None
    """Set by who runs the process: the rack of an address, host name and transfer port."""

    def start(self) -> None:
        """Begin the rounds: silence of DataNodes, missing replicas, blocks held in memory."""
        self.ns.cached_count = self.cache_placement.count
        self._watch()
        self._redundancy_round()
        self._cache_round()
        if self.room is not None:
            self.timers.call_later(self.settings.resource_check_ms, self._room_round)

    # -- registration ------------------------------------------------------------------------

    def register_datanode(self, registration: Registration) -> DatanodeDescriptor:
        """RemoteError when refused. Anew after every restart of either side."""
        ns, identity = self.ns, registration.identity
        self._check_version(registration)
        if registration.namespace_id not in (0, ns.namespace_id) or (
            registration.cluster_id and registration.cluster_id != ns.cluster_id
        ):
            raise RemoteError(
                exceptions.INCORRECT_VERSION,
                f"DataNode {identity.uuid} belongs to namespace {registration.namespace_id} of "
                f"cluster {registration.cluster_id}, not to {ns.namespace_id} of {ns.cluster_id}",
            )
        if not identity.uuid:
            raise RemoteError(exceptions.DISALLOWED_DATANODE, "a DataNode without a UUID")
        if not self.hosts.may_join(identity.ip_address, identity.host_name):
            raise RemoteError(
                exceptions.DISALLOWED_DATANODE,
                f"Datanode denied communication with namenode because the host is not in the "
                f"include-list: {identity.host_name} ({identity.ip_address})",
            )
        node = self.datanodes.get(identity.uuid)
        name = f"{identity.ip_address}:{identity.xfer_port}"
        former = self.datanodes.at(name)
        if former is not None and former is not node:
            # The node at this address was formatted anew: its former self is gone.
            self._lose(former, "replaced")
            self.datanodes.remove(former)
        rack = registration.rack
        if self.rack_of is not None:
            rack = self.rack_of(identity.ip_address, identity.host_name, identity.xfer_port)
        if node is None:
            node = DatanodeDescriptor(identity, rack, registration.software_version)
            self.datanodes.put(node)
        else:
            self.datanodes.move(node, identity)
            node.rack = rack
            node.software_version = registration.software_version
            for storage in node.storages.values():
                storage.has_reported = False
                storage.is_of_before = True
        node.is_alive = True
        node.must_register = False
        node.to_transfer.clear()
        forget_cached(node)
        self._heard_of(node)
        self._judge_hosts(node)
        had_racks = self.datanodes.has_racks
        self.datanodes.count_racks()
        if self.datanodes.has_racks and not had_racks and not self.safe_mode.is_on:
            self.in_slices(self.blocks.reviewing_all())
        self.events.info("datanode_registered", node=node.name, uuid=node.uuid)
        return node

    def _check_version(self, registration: Registration) -> None:
        """A DataNode of another release is welcome, if not of another life of the namespace: so
        they are replaced one by one. How its directories look is its own business."""
        version, minimum = registration.software_version, self.settings.min_datanode_version
        if is_older(version, minimum):
            raise RemoteError(
                exceptions.INCORRECT_VERSION, too_old("DataNode", version, minimum, "NameNode")
            )
        if version == SOFTWARE_VERSION:
            return
        words = (
            f"Reported DataNode version '{version}' of DN {registration.identity.uuid} does not "
            f"match NameNode version '{SOFTWARE_VERSION}'"
        )
        if registration.c_time != self.ns.c_time_ms:
            raise RemoteError(
                exceptions.INCORRECT_VERSION,
                f"{words} and CTime of DN ('{registration.c_time}') does not match CTime of NN "
                f"('{self.ns.c_time_ms}')",
            )
        self.events.info("datanode_version_differs", words=words)

    # -- who may join, who must leave --------------------------------------------------------

    def refresh_nodes(self, hosts: Hosts) -> None:
        """New lists: nodes that are on the exclude list begin to leave, others come back."""
        self.hosts = hosts
        for node in list(self.datanodes):
            identity = node.identity
            if not hosts.may_join(identity.ip_address, identity.host_name):
                self._lose(node, "not included")
            self._judge_hosts(node)

    def _judge_hosts(self, node: DatanodeDescriptor) -> None:
        before = node.admin_state
        steps = self.leaving.judge(node, self.hosts, self.clock.now_ms())
        if steps is not None:
            self.events.info(
                "datanode_admin_state",
                node=node.name,
                before=before.name,
                after=node.admin_state.name,
            )
            self.datanodes.count_racks()
            self.in_slices(steps)

    def _look_at_leaving(self) -> None:
        for node in self.datanodes:
            if node.admin_state is AdminState.NORMAL:
                continue
            if node.maintenance_expire_ms and node.maintenance_expire_ms <= self.clock.now_ms():
                self._judge_hosts(node)
                if not node.is_alive:
                    storages = set(node.storages.values())
                    self.in_slices(self.blocks.removing_storages(storages))
            elif self.leaving.look(node):
                self.events.info(
                    "datanode_admin_state", node=node.name, after=node.admin_state.name
                )

    def _heard_of(self, node: DatanodeDescriptor) -> None:
        node.last_heartbeat_ms = self.clock.monotonic_ms()
        node.last_update_ms = self.clock.now_ms()
        node.is_doubtful = False

    def doubt(self, uuid: str, reason: str) -> None:
        """A DataNode that may be gone: nobody is sent to it until it is heard of again."""
        node = self.datanodes.get(uuid)
        if node is not None and node.is_alive and not node.is_doubtful:
            node.is_doubtful = True
            self.events.info("datanode_doubtful", node=node.name, uuid=node.uuid, reason=reason)

    # -- heartbeats --------------------------------------------------------------------------

    def heartbeat(
        self,
        uuid: str,
        storage_reports: Sequence[StorageReport],
        *,
        xceiver_count: int = 0,
        xmits_in_progress: int = 0,
        failed_volumes: int = 0,
        cache_capacity: int = 0,
        cache_used: int = 0,
        request_full_report_lease: bool = False,
    ) -> HeartbeatAnswer:
        node = self.datanodes.get(uuid)
        if node is None or not node.is_alive or node.must_register:
            return HeartbeatAnswer((RegisterCommand(),))
        self._heard_of(node)
        node.xceiver_count = xceiver_count
        node.xmits_in_progress = xmits_in_progress
        node.failed_volumes = failed_volumes
        node.cache_capacity = cache_capacity
        node.cache_used = cache_used
        self._update_storages(node, storage_reports)
        if self.safe_mode.is_starting:
            self.look_at_safe_mode()
        commands = tuple(self._commands(node))
        return HeartbeatAnswer(commands, 1 if request_full_report_lease else 0)

    def _update_storages(
        self, node: DatanodeDescriptor, storage_reports: Sequence[StorageReport]
    ) -> None:
        failed: set[StorageInfo] = set()
        for report in storage_reports:
            storage = self.storage_of(node, report)
            storage.capacity = report.capacity
            storage.dfs_used = report.dfs_used
            storage.remaining = report.remaining
            storage.block_pool_used = report.block_pool_used
            storage.non_dfs_used = report.non_dfs_used
            if report.has_failed and storage.state != STORAGE_FAILED:
                storage.state = STORAGE_FAILED
                failed.add(storage)
        if storage_reports and len(storage_reports) < len(node.storages):
            named = {report.storage_id for report in storage_reports}
            for storage_id, storage in list(node.storages.items()):
                if storage_id not in named and (storage.has_reported or storage.is_of_before):
                    # A volume that a heartbeat no longer names was taken out. One that was new
                    # since the registration may have been reported ahead of its heartbeat.
                    del node.storages[storage_id]
                    failed.add(storage)
        if failed:
            self.events.warning("storage_failed", node=node.name, storages=len(failed))
            self.in_slices(self.blocks.removing_storages(failed))

    def storage_of(self, node: DatanodeDescriptor, report: StorageReport) -> StorageInfo:
        storage = node.storages.get(report.storage_id)
        if storage is None:
            storage = StorageInfo(node, report.storage_id, report.storage_type)
            storage.state = report.state
            node.storages[report.storage_id] = storage
        return storage

    def _commands(self, node: DatanodeDescriptor) -> list[Command]:
        commands: list[Command] = []
        if node.balancer_bandwidth:
            commands.append(BalancerBandwidthCommand(node.balancer_bandwidth))
            node.balancer_bandwidth = 0
        if self.safe_mode.is_on:
            return commands
        if node.to_recover:
            commands.append(RecoverCommand(tuple(node.to_recover.values())))
            node.to_recover.clear()
        room = self.settings.max_transfers_per_datanode - node.xmits_in_progress
        if node.to_transfer and room > 0:
            count = min(room, _TRANSFERS_PER_HEARTBEAT_MAX, len(node.to_transfer))
            commands.append(
                TransferCommand(tuple(node.to_transfer.popleft() for _ in range(count)))
            )
        if node.to_invalidate:
            chosen = list(node.to_invalidate.values())[: self.settings.invalidate_limit]
            for name in chosen:
                del node.to_invalidate[name.block_id]
            chosen = [name for name in chosen if self.blocks.may_delete(name, node)]
            if chosen:
                commands.append(InvalidateCommand(tuple(chosen)))
        commands += self.cache_placement.commands(node, self.clock.monotonic_ms())
        return commands

    # -- reports -----------------------------------------------------------------------------

    def _registered(self, uuid: str) -> DatanodeDescriptor:
        node = self.datanodes.get(uuid)
        if node is None or not node.is_alive:
            # Not UnregisteredNodeException, which ends a DataNode: its next heartbeat tells it to
            # register again.
            raise RemoteError(
                exceptions.IO,
                f"Data node {uuid} is attempting to report but is dead or not registered",
            )
        return node

    def block_report(
        self, uuid: str, storage: StorageReport, replicas: Sequence[ReportedReplica]
    ) -> Promise[None]:
        """A full report of one storage; resolved when all of it was looked at."""
        node = self._registered(uuid)
        found = self.storage_of(node, storage)
        node.last_block_report_ms = self.clock.now_ms()
        done = self.in_slices(reports.full(self.blocks, found, replicas))
        done.then(lambda _: self._on_reported())
        return done

    def _on_reported(self) -> None:
        self.look_at_safe_mode()
        if not self.safe_mode.is_on:
            self.blocks.review_postponed()

    def incremental_report(
        self, uuid: str, storage: StorageReport, changes: Sequence[ReceivedDeletedBlock]
    ) -> None:
        node = self._registered(uuid)
        self.report_count += 1
        reports.incremental(self.blocks, self.storage_of(node, storage), changes)
        self.drain()
        if self._waiting:
            for change in changes:
                block = self.ns.blocks.get(change.block_id)
                if block is not None and block.file is not None:
                    self.wake(block.file.inode_id)
        if self.safe_mode.is_starting:
            self.look_at_safe_mode()

    def cache_report(self, uuid: str, block_ids: Sequence[int]) -> None:
        self.cache_placement.on_report(self._registered(uuid), block_ids)

    def error_report(self, uuid: str, error_code: int, message: str) -> None:
        """0 notify, 1 disk error, 2 invalid block, 3 fatal disk error."""
        node = self._registered(uuid)
        self.events.warning("datanode_error", node=node.name, code=error_code, message=message)
        if error_code == 3:
            self._lose(node, "fatal disk error")

    def report_bad_blocks(
        self, bad: Sequence[tuple[ExtendedBlock, Sequence[tuple[str, str]]]]
    ) -> None:
        """Each block with the (DataNode UUID, storage id) of its bad replicas."""
        for named, places in bad:
            block = self.ns.blocks.get(named.block_id)
            if block is None or block.uc is not None:
                continue
            if named.generation_stamp != block.generation_stamp:
                continue
            for uuid, storage_id in places:
                storage = self._storage_with(block, uuid, storage_id)
                if storage is not None:
                    self.blocks.mark_corrupt(
                        block, storage, "CORRUPTION_REPORTED", block.generation_stamp
                    )

    def _storage_with(self, block: BlockInfo, uuid: str, storage_id: str) -> StorageInfo | None:
        for storage in block.replicas:
            if storage.datanode.uuid == uuid and storage_id in ("", storage.storage_id):
                return storage
        for storage in block.replicas:
            if storage.datanode.uuid == uuid:
                return storage
        return None

    # -- safe mode ---------------------------------------------------------------------------

    def look_at_safe_mode(self) -> None:
        if self.safe_mode.look(len(self.datanodes.live()), self.clock.monotonic_ms()):
            self.events.info("safe_mode_left", blocks=self.safe_mode.block_total)
            self.in_slices(self.blocks.reviewing_all())

    def set_safe_mode(self, action: str) -> bool:
        """enter, leave, force_exit or get; True: it is on."""
        if action == "enter":
            self.safe_mode.enter()
        elif action in ("leave", "force_exit"):
            was_on = self.safe_mode.is_on
            given_up = self.safe_mode.future_bytes
            left = self.safe_mode.leave(force=action == "force_exit")
            if was_on and left:
                self.in_slices(self.blocks.reviewing_all())
            if left and given_up:
                self._give_up_the_future(given_up)
        return self.safe_mode.is_on

    def _give_up_the_future(self, future_bytes: int) -> None:
        """All report once more, and what this journal has never heard of is deleted."""
        self.events.warning("replicas_from_the_future_given_up", bytes=future_bytes)
        for node in self.datanodes.live():
            node.must_register = True

    # -- rounds ------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Who has been silent for too long?"""
        now_ms = self.clock.monotonic_ms()
        for node in self.datanodes.live():
            if now_ms - node.last_heartbeat_ms > self.settings.datanode_dead_ms:
                self._lose(node, "silent")
            elif now_ms - node.last_heartbeat_ms > self.settings.stale_datanode_ms:
                self.doubt(node.uuid, "stale")
        if self.safe_mode.is_starting:
            self.look_at_safe_mode()
        self.timers.call_later(max(self.settings.datanode_dead_ms / 10, 100), self._watch)

    def _lose(self, node: DatanodeDescriptor, reason: str) -> None:
        if not node.is_alive:
            return
        node.is_alive = False
        self.datanodes.count_racks()
        forget_cached(node)
        node.to_transfer.clear()
        node.to_invalidate.clear()
        node.to_recover.clear()
        self.events.warning("datanode_lost", node=node.name, uuid=node.uuid, reason=reason)
        if node.admin_state is not AdminState.IN_MAINTENANCE:
            storages = set(node.storages.values())
            self.in_slices(self.blocks.removing_storages(storages))
        for block_id in self.blocks.pending.lost(node.uuid):
            block = self.ns.blocks.get(block_id)
            if block is not None:
                self.blocks.review(block)

    def _cache_round(self) -> None:
        now_ms, interval_ms = self.clock.monotonic_ms(), self.settings.cache_refresh_ms
        if not self.safe_mode.is_on and self.cache_placement.is_due(now_ms, interval_ms):
            self.in_slices(self.cache_placement.rescan(now_ms, self.clock.now_ms()))
        self.timers.call_later(_CACHE_LOOK_MS, self._cache_round)

    def _room_round(self) -> None:
        self.look_for_room()
        self.timers.call_later(self.settings.resource_check_ms, self._room_round)

    def _redundancy_round(self) -> None:
        if not self.safe_mode.is_on:
            self._look_at_leaving()
            for block_id in self.blocks.pending.expired(self.clock.monotonic_ms()):
                block = self.ns.blocks.get(block_id)
                if block is not None:
                    self.blocks.review(block)
            count = _BLOCKS_PER_ROUND_PER_NODE * max(len(self.datanodes.live()), 1)
            for block in list(self.blocks.needed.to_do(count)):
                self._schedule_copy(block)
        self.timers.call_later(self.settings.redundancy_interval_ms, self._redundancy_round)

    def _schedule_copy(self, block: BlockInfo) -> None:
        file = block.file
        if file is None or block.uc is not None:
            self.blocks.needed.remove(block.block_id)
            return
        due = self.blocks.pending.targets(block.block_id)
        lack = file.replication - self.blocks.live_replicas(block) - len(due)
        is_moved = lack <= 0 and not due and self.blocks.is_badly_placed(block)
        lack = 1 if is_moved else lack
        source = self._copy_source(block)
        if lack <= 0 or source is None:
            if lack <= 0:
                self.blocks.review(block)
            return
        known = (*block.replicas, *due, *self.blocks.corrupt.get(block.block_id, ()))
        targets = choose_targets(
            self.datanodes,
            self.random,
            lack,
            max(block.num_bytes, 1),
            existing=known,
        )
        if is_moved:
            # One more on another rack, and then one of those that share theirs is one too many.
            racks = {storage.datanode.rack for storage in block.replicas}
            targets = tuple(one for one in targets if one.datanode.rack not in racks)
        if not targets:
            return
        name = BlockName(block.block_id, block.generation_stamp, block.num_bytes)
        source.to_transfer.append((name, targets))
        self.blocks.pending.add(block.block_id, targets, self.clock.monotonic_ms())
        self.blocks.review(block)

    def _copy_source(self, block: BlockInfo) -> DatanodeDescriptor | None:
        """A DataNode that has a good replica and is not too busy; leaving ones first."""
        limit = self.settings.max_transfers_per_datanode * 8
        nodes = [
            s.datanode
            for s in block.replicas
            if s.datanode.is_alive and len(s.datanode.to_transfer) < limit
        ]
        if not nodes:
            return None
        return min(
            nodes,
            key=lambda n: (n.is_doubtful, len(n.to_transfer), n.admin_state is AdminState.NORMAL),
        )

    # -- figures -----------------------------------------------------------------------------

    def missing_blocks(self) -> list[BlockInfo]:
        """Blocks of files without a single good replica."""
        return [b for b in self.blocks.needed.without_replicas() if b.file is not None]

    def require_known(self, uuid: str) -> DatanodeDescriptor:
        node = self.datanodes.get(uuid)
        if node is None:
            raise refusals.io(f"unknown DataNode {uuid}")
        return node
