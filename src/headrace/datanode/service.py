"""The conversation with the NameNode: who we are, that we live, what we have.

    versionRequest → (volumes opened) → registerDatanode → blockReport → sendHeartbeat …
         ▲                                  ▲                                │
         └── pool changed ──────────────────┴─── told to register again ─────┘

Owns: registration, heartbeats, reports and their retries. Must not know: sockets, blocks' bytes.
Spec: BPServiceActor of Hadoop 3.5.

Invariants: one heartbeat and one incremental report in flight at a time; a NameNode that does
not answer is asked again, for ever; a change is told until the NameNode took it, and so is what is
bad (`complaints`); a node that was let in once and is then shut out ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

from google.protobuf.message import Message

from headrace.base.clock import Clock, Timer, Timers
from headrace.base.errors import StorageError, UsageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.datanode.commands import Commands
from headrace.datanode.complaints import Complaints
from headrace.datanode.context import Context
from headrace.datanode.replica import Replica
from headrace.datanode.reports import BlockStatus, ChangedBlocks, full_report
from headrace.datanode.volume import PoolIdentity, Volume
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.protos import datanode_pb2 as pb
from headrace.wire.hadoop.protos import hdfs_pb2 as hdfs
from headrace.wire.hadoop.protos import hdfs_server_pb2 as server
from headrace.wire.hadoop.transfer import ExtendedBlock, unsigned
from headrace.wire.hadoop.versions import (
    SOFTWARE_VERSION,
    SUPPORTED_VERSION_MIN,
    is_older,
    too_old,
)

LAYOUT_VERSION = -57 & 0xFFFFFFFF
_RETRY_MS = 500
_REFUSED_RETRY_MS = 5_000
_SHUT_OUT = frozenset(
    {
        exceptions.DISALLOWED_DATANODE,
        exceptions.INCORRECT_VERSION,
        exceptions.UNREGISTERED_NODE,
    }
)
"""Refusals that no second try will change: an operator has to."""
_STORAGES_PER_REPORT_BLOCKS_MAX = 1_000_000
_SHORT_HEARTBEATS_MS = 1000
_VOLUME_CHECK_MS = 5_000

CallNameNode = Callable[[str, Message], "Promise[Any]"]
"""Call a method of DatanodeProtocol."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    heartbeat_ms: int = 3_000
    block_report_ms: int = 21_600_000
    incremental_report_ms: int = 0
    failed_volumes_tolerated: int = -1
    cache_report_ms: int = 10_000
    min_namenode_version: str = SUPPORTED_VERSION_MIN


class NameNodeService:
    def __init__(
        self,
        context: Context,
        settings: ServiceSettings,
        call: CallNameNode,
        random: Random,
        on_pool: Callable[[PoolIdentity], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._context = context
        self._settings = settings
        self._call = call
        self._random = random
        self._on_pool = on_pool
        self._on_fatal = on_fatal
        self._clock: Clock = context.clock
        self._timers: Timers = context.timers
        self._log: EventLog = context.log
        self.commands: Commands | None = None
        self.registered = False
        self.registrations = 0
        self.heartbeats = 0
        self._changes = ChangedBlocks()
        self._complaints = Complaints(context, call, self._registration)
        self._has_reported = False
        """All replicas, since the last registration."""
        self._reporting = False
        self._report_timer: Timer | None = None
        self._heart_timer: Timer | None = None
        self._heart_in_flight = False
        self._full_report_due_ms = 0
        self._volume_check_due_ms = 0
        self._cache_report_due_ms = 0
        self._cache_reporting = False
        self._stopped = False
        self._failed: list[tuple[Volume, int]] = []
        dataset = context.dataset
        dataset.on_received = self._on_received
        dataset.on_receiving = self._on_receiving
        dataset.on_deleted = self._on_deleted
        dataset.on_volume_failed = self._on_volume_failed
        context.report_bad_block = self.report_bad_block

    # -- registration ------------------------------------------------------------------

    def start(self) -> None:
        self._ask_version()

    def stop(self) -> None:
        self._stopped = True
        for timer in (self._heart_timer, self._report_timer):
            if timer is not None:
                timer.cancel()

    def _later(self, action: Callable[[], None], delay_ms: int = _RETRY_MS) -> None:
        if not self._stopped:
            self._timers.call_later(delay_ms, action)

    def _ask_version(self) -> None:
        if not self._stopped:
            self._call("versionRequest", server.VersionRequestProto()).then(self._on_version)

    def _on_version(self, settled: "Promise[Any]") -> None:
        if self._stopped:
            return
        if settled.error is not None:
            self._log.info("namenode_unavailable", error=settled.error)
            self._later(self._ask_version)
            return
        answer: server.VersionResponseProto = settled.value()
        info = answer.info
        if not self._suits(info.softwareVersion):
            return
        pool = PoolIdentity(
            info.blockPoolID,
            info.storageInfo.namespceID,
            info.storageInfo.clusterID,
            info.storageInfo.cTime,
        )
        known = self._context.dataset.pool
        try:
            if known is None:
                self._on_pool(pool)
            elif known.pool_id != pool.pool_id:
                raise UsageError(
                    f"the NameNode now serves block pool {pool.pool_id}; this DataNode holds "
                    f"blocks of {known.pool_id}"
                )
        except (UsageError, StorageError) as error:
            self._on_fatal(error)
            return
        self._register()

    def _suits(self, version: str) -> bool:
        """The NameNode's release; one that is too old ends this node, as HDFS's."""
        minimum = self._settings.min_namenode_version
        if is_older(version, minimum):
            self._on_fatal(UsageError(too_old("NameNode", version, minimum, "DataNode")))
            return False
        if version != SOFTWARE_VERSION and not self.registrations:
            self._log.info("namenode_version_differs", namenode=version, own=SOFTWARE_VERSION)
        return True

    def _registration(self) -> pb.DatanodeRegistrationProto:
        pool = self._context.dataset.pool
        assert pool is not None, "registration comes after versionRequest"
        return pb.DatanodeRegistrationProto(
            datanodeID=self._context.identity,
            storageInfo=server.StorageInfoProto(
                layoutVersion=LAYOUT_VERSION,
                namespceID=pool.namespace_id,
                clusterID=pool.cluster_id,
                cTime=pool.ctime,
            ),
            keys=server.ExportedBlockKeysProto(
                isBlockTokenEnabled=False,
                keyUpdateInterval=0,
                tokenLifeTime=0,
                currentKey=server.BlockKeyProto(keyId=0, expiryDate=0),
            ),
            softwareVersion=SOFTWARE_VERSION,
        )

    def _register(self) -> None:
        if self._stopped:
            return
        request = pb.RegisterDatanodeRequestProto(registration=self._registration())
        self._call("registerDatanode", request).then(self._on_registered)

    def _on_registered(self, settled: "Promise[Any]") -> None:
        if self._stopped:
            return
        if _is_shut_out(settled.error):
            self._on_shut_out(settled.error)
            return
        if settled.error is not None:
            self._log.warning("registration_failed", error=settled.error)
            self._later(self._ask_version)
            return
        self.registered = True
        self.registrations += 1
        self._cache_report_due_ms = 0
        self._has_reported = False
        self._complaints.tell_anew()
        self._log.info("registered", datanode=self._context.identity.datanodeUuid)
        self.report_all()
        self._beat()

    def _on_shut_out(self, error: BaseException) -> None:
        """As HDFS's: one that never was let in waits for an operator to mend it, one that was
        ends."""
        if self.registrations:
            self._on_fatal(error)
            return
        self._log.error("registration_refused", error=error)
        self._later(self._ask_version, _REFUSED_RETRY_MS)

    def register_again(self) -> None:
        """The NameNode does not know us: a new one, or one that took us for dead."""
        if self.registered:
            self.registered = False
            self._ask_version()

    # -- heartbeats --------------------------------------------------------------------

    def _beat(self) -> None:
        if self._stopped or not self.registered or self._heart_in_flight:
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._volume_check_due_ms:
            self._volume_check_due_ms = now_ms + _VOLUME_CHECK_MS
            self._context.dataset.check_volumes()
            if self._heart_in_flight:
                return  # a volume failed, and that was told at once
        if self._heart_timer is not None:
            self._heart_timer.cancel()
            self._heart_timer = None
        self._heart_in_flight = True
        dataset = self._context.dataset
        request = pb.HeartbeatRequestProto(
            registration=self._registration(),
            reports=[self._storage_report(volume) for volume in dataset.live_volumes()],
            xmitsInProgress=self.commands.copies_in_progress if self.commands else 0,
            xceiverCount=self._context.active,
            failedVolumes=len(self._failed),
        )
        pinned = self.commands.pinned if self.commands else None
        if pinned is not None:
            request.cacheCapacity = pinned.capacity_bytes
            request.cacheUsed = pinned.used_bytes
        if self._failed:
            request.volumeFailureSummary.CopyFrom(
                pb.VolumeFailureSummaryProto(
                    failedStorageLocations=[volume.path for volume, _ in self._failed],
                    lastVolumeFailureDate=self._failed[-1][1],
                    estimatedCapacityLostTotal=0,
                )
            )
        self._call("sendHeartbeat", request).then(self._on_beat_answered)

    def _storage_report(self, volume: Volume) -> hdfs.StorageReportProto:
        used = volume.used_bytes
        try:
            capacity, remaining = volume.capacity_bytes(), volume.free_bytes()
        except StorageError as error:
            self._context.dataset.volume_failed(volume, error)
            return hdfs.StorageReportProto(storageUuid=volume.storage_id, failed=True)
        return hdfs.StorageReportProto(
            storageUuid=volume.storage_id,
            failed=False,
            capacity=capacity,
            dfsUsed=used,
            remaining=remaining,
            blockPoolUsed=used,
            nonDfsUsed=max(0, capacity - used - remaining),
            storage=hdfs.DatanodeStorageProto(
                storageUuid=volume.storage_id,
                state=hdfs.DatanodeStorageProto.NORMAL,
                storageType=hdfs.DISK,
            ),
        )

    def _on_beat_answered(self, settled: "Promise[Any]") -> None:
        self._heart_in_flight = False
        if self._stopped:
            return
        delay_ms = self._settings.heartbeat_ms
        if settled.error is not None:
            self._log.warning("heartbeat_failed", error=settled.error)
            if _is_shut_out(settled.error):
                self._on_shut_out(settled.error)
                return
            if isinstance(settled.error, RemoteError):
                self.registered = False
                self._later(self._ask_version)  # not at once: the next may be refused as well
                return
            delay_ms = min(delay_ms, _SHORT_HEARTBEATS_MS)
        # Before anything is obeyed: whatever an order leads to, the heart goes on.
        self._heart_timer = self._timers.call_later(delay_ms, self._beat)
        if settled.error is None:
            self.heartbeats += 1
            self._obey(settled.value())
        if self._clock.monotonic_ms() >= self._full_report_due_ms:
            self.report_all()
        self._send_changes()
        self._complain()
        if self._clock.monotonic_ms() >= self._cache_report_due_ms:
            self.report_cache()

    def _obey(self, answer: pb.HeartbeatResponseProto) -> None:
        assert self.commands is not None
        for command in answer.cmds:
            self.commands.obey(command)

    # -- full reports ------------------------------------------------------------------

    def report(self, *, incremental: bool) -> None:
        """An administrator wants it now."""
        if incremental:
            self._send_changes()
        else:
            self.report_all()

    def report_all(self) -> None:
        """Tell of every replica. One call, or one a volume where there are very many."""
        if not self.registered or self._stopped:
            return
        # Spread over the interval, so that nodes do not all report at once.
        spread = 0.5 + self._random.random() / 2
        self._full_report_due_ms = self._clock.monotonic_ms() + int(
            self._settings.block_report_ms * spread
        )
        self._send_changes()
        dataset = self._context.dataset
        volumes = dataset.live_volumes()
        together = len(dataset.replicas) <= _STORAGES_PER_REPORT_BLOCKS_MAX
        groups = [volumes] if together else [[volume] for volume in volumes]
        report_id = self._random.getrandbits(62) + 1
        self._report_group(groups, 0, report_id)

    def _report_group(self, groups: list[list[Volume]], index: int, report_id: int) -> None:
        dataset = self._context.dataset
        if dataset.pool is None:
            return
        if index >= len(groups):
            self._has_reported = True
            self._complain()
            return
        request = pb.BlockReportRequestProto(
            registration=self._registration(),
            blockPoolId=dataset.pool.pool_id,
            reports=[full_report(dataset, volume) for volume in groups[index]],
            context=pb.BlockReportContextProto(totalRpcs=len(groups), curRpc=index, id=report_id),
        )
        promise = self._call("blockReport", request)
        promise.then(partial(self._on_reported, groups, index, report_id))

    def _on_reported(
        self, groups: list[list[Volume]], index: int, report_id: int, settled: "Promise[Any]"
    ) -> None:
        if self._stopped:
            return
        if settled.error is not None:
            self._log.warning("block_report_failed", error=settled.error)
            self._full_report_due_ms = self._clock.monotonic_ms()
            return
        answer: pb.BlockReportResponseProto = settled.value()
        if answer.HasField("cmd") and self.commands is not None:
            self.commands.obey(answer.cmd)
        self._report_group(groups, index + 1, report_id)

    # -- what is held in memory --------------------------------------------------------

    def report_cache(self) -> None:
        """Which replicas are held: at once when that changed, and now and then."""
        pinned = self.commands.pinned if self.commands else None
        pool = self._context.dataset.pool
        if pinned is None or pool is None or not self.registered or self._cache_reporting:
            self._cache_report_due_ms = 0  # with the next heartbeat, or after the one under way
            return
        self._cache_reporting = True
        self._cache_report_due_ms = self._clock.monotonic_ms() + self._settings.cache_report_ms
        request = pb.CacheReportRequestProto(
            registration=self._registration(),
            blockPoolId=pool.pool_id,
            blocks=[unsigned(block_id) for block_id in pinned.block_ids()],
        )
        self._call("cacheReport", request).then(self._on_cache_reported)

    def _on_cache_reported(self, settled: "Promise[Any]") -> None:
        self._cache_reporting = False
        self._told("cache_report", settled)
        if settled.error is None and self._cache_report_due_ms == 0:
            self.report_cache()

    # -- changes -----------------------------------------------------------------------

    def _on_received(self, replica: Replica, delete_hint: str) -> None:
        self._changes.add(replica, BlockStatus.RECEIVED, delete_hint)
        self._send_soon()

    def _on_receiving(self, replica: Replica) -> None:
        # Told with the next change or heartbeat: nobody waits for it.
        self._changes.add(replica, BlockStatus.RECEIVING)

    def _on_deleted(self, replica: Replica) -> None:
        self._changes.add(replica, BlockStatus.DELETED)

    def _send_soon(self) -> None:
        if self._settings.incremental_report_ms == 0:
            self._send_changes()
        elif self._report_timer is None:
            self._report_timer = self._timers.call_later(
                self._settings.incremental_report_ms, self._on_report_timer
            )

    def _on_report_timer(self) -> None:
        self._report_timer = None
        self._send_changes()

    def _send_changes(self) -> None:
        pool = self._context.dataset.pool
        if self._reporting or not self.registered or not self._changes or pool is None:
            return
        self._reporting = True
        told = self._changes.take()
        request = pb.BlockReceivedAndDeletedRequestProto(
            registration=self._registration(), blockPoolId=pool.pool_id, blocks=told
        )
        promise = self._call("blockReceivedAndDeleted", request)
        promise.then(partial(self._on_changes_told, told))

    def _on_changes_told(
        self, told: list[pb.StorageReceivedDeletedBlocksProto], settled: "Promise[Any]"
    ) -> None:
        self._reporting = False
        if settled.error is not None:
            self._log.warning("incremental_report_failed", error=settled.error)
            self._changes.put_back(told)
            return  # goes with the next heartbeat
        if self._changes:
            self._send_soon()

    # -- trouble -----------------------------------------------------------------------

    def report_bad_block(self, block: ExtendedBlock, node: hdfs.DatanodeIDProto | None) -> None:
        """A corrupt replica, ours or another node's."""
        self._complaints.add_bad_replica(block, node)
        self._complain()

    def _complain(self) -> None:
        if self.registered and self._has_reported and not self._stopped:
            self._complaints.tell()

    def _on_volume_failed(self, volume: Volume, error: StorageError) -> None:
        self._log.error("volume_failed", volume=volume, error=error)
        self._failed.append((volume, self._clock.now_ms()))
        self._complaints.add_error(f"{volume} failed: {error}")
        if self._context.dataset.pool is not None and self.registered:
            self._complain()
            self._beat()
        tolerated = self._settings.failed_volumes_tolerated
        live = self._context.dataset.live_volumes()
        if not live or (0 <= tolerated < len(self._failed)):
            self._on_fatal(StorageError(volume.path, "too many volumes failed"))

    def _told(self, what: str, settled: "Promise[Any]") -> None:
        if settled.error is not None:
            self._log.warning(f"{what}_failed", error=settled.error)


def _is_shut_out(error: BaseException | None) -> TypeGuard[RemoteError]:
    return isinstance(error, RemoteError) and error.class_name in _SHUT_OUT
