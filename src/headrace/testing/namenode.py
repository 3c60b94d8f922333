"""A NameNode in memory with DataNodes that only keep books: real decisions, host and log over a
simulated disk and clock.

Owns: `SimulatedNameNode` (can be killed, lose power and come back), `SimulatedDatanode` (obeys
commands, reports truthfully unless a test says otherwise), and `durable_state`, which tells all
that the journal must preserve as one comparable value.
"""

from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import Any

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.log.file_budget import FileBudget
from headrace.namespace import checkpoint, requests
from headrace.namespace.caller import Caller
from headrace.namespace.checkpoint import check_gap, load_newest
from headrace.namespace.datanodes import (
    DELETED,
    RECEIVED,
    BlockName,
    CacheCommand,
    DatanodeIdentity,
    InvalidateCommand,
    ReceivedDeletedBlock,
    RecoverCommand,
    RecoveringBlock,
    RegisterCommand,
    Registration,
    ReplicaState,
    ReportedReplica,
    StorageReport,
    TransferCommand,
    UncacheCommand,
)
from headrace.namespace.filesystem import Namespace
from headrace.namespace.inodes import DirectoryInode, FileInode, Inode, SymlinkInode
from headrace.namespace.journal import Journal, open_log
from headrace.namespace.namenode import NameNode
from headrace.namespace.room import Room
from headrace.namespace.rpc.asking import ask
from headrace.namespace.settings import NamespaceSettings
from headrace.namespace.values import ExtendedBlock, LocatedBlock
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.testing.disk import SimulatedDisk

SUPERUSER = "hdfs"
_SYNCS_MAX = 10_000
_GIB = 1024**3
BLOCK_SIZE = 1024 * 1024
_FILLS_BYTES = (512, 8192, 1024 * 1024)
"""Zeros ahead of the edit log: used up within an edit or two, in a while, never."""


class Turns(Enum):
    """Whether decisions wait for the end of a turn of the loop, and whose turn that is."""

    NONE = auto()
    SHARED = auto()
    ONE_CALL_S = auto()


class SimulatedNameNode:
    def __init__(
        self,
        *,
        seed: int = 1,
        settings: NamespaceSettings | None = None,
        datanodes: int = 0,
        racks: int = 1,
        disk: SimulatedDisk | None = None,
        turns: Turns = Turns.NONE,
    ) -> None:
        self.random = Random(seed)
        self._turns = turns
        self._at_turn_end: list[Callable[[], None]] = []
        self.settings = settings or NamespaceSettings(superuser=SUPERUSER)
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.disk = SimulatedDisk() if disk is None else disk
        self.failures: list[BaseException] = []
        self.lines: list[str] = []
        self.damaged: list[str] = []
        """Checkpoints that a start found damaged."""
        self.call_id = 0
        self.fill_ahead_bytes = Random(seed).choice(_FILLS_BYTES)
        self.nodes = [
            SimulatedDatanode(self, index, f"/rack{index % racks}") for index in range(datanodes)
        ]
        self.open()

    # -- life --------------------------------------------------------------------------------

    def open(self, *, register: bool = True) -> None:
        """Start, or start again from what the disk holds."""
        self.disk.make_directory("name")
        self.disk.sync_directory("/")
        log = open_log(
            self.disk,
            "name",
            self.clock,
            FileBudget(self.disk),
            fill_ahead_bytes=self.fill_ahead_bytes,
        )

        def make_journal(ns: Namespace, on_durable: Callable[[], None]) -> Journal:
            check_gap(log, ns)
            return Journal(
                log,
                ns,
                self.clock,
                on_durable=on_durable,
                on_fatal=self.failures.append,
                at_turn_end=None if self._turns is Turns.NONE else self._on_turn_end,
                timers=self.timers,
            )

        self._at_turn_end.clear()
        self.timers = SimulatedTimers(self.clock)
        self.namenode = NameNode(
            self.new_namespace(),
            make_journal,
            clock=self.clock,
            timers=self.timers,
            random=self.random,
            events=EventLog(self.lines.append, self.clock),
            room=Room(self.disk, "name", self.settings.resource_reserved_bytes),
        )
        self.namenode.load(cluster_id="simulated")
        self.settle()
        self.namenode.start()
        assert not self.failures
        if register:
            for node in self.nodes:
                node.register()
            self.beat()

    def new_namespace(self) -> Namespace:
        return load_newest(
            self.disk, "name", self.settings, lambda path, _: self.damaged.append(path)
        )

    def checkpoint(self) -> int:
        """As the child process does it, while this NameNode goes on."""
        offset = checkpoint.build(
            self.disk, "name", self.namenode.journal.high_watermark, self.settings
        )
        checkpoint.retire(self.disk, "name", self.namenode.journal.log, self.clock.now_ms())
        return offset

    def restart(self) -> None:
        """kill -9 and start: what the process had not given to the disk is gone."""
        self.disk.kill()
        self.open()

    def lose_power(self, *, tear: bool = True) -> None:
        self.disk.crash(self.random, tear=tear)
        self.open()

    @property
    def ns(self) -> Namespace:
        return self.namenode.ns

    # -- time --------------------------------------------------------------------------------

    def _on_turn_end(self, action: Callable[[], None]) -> bool:
        self._at_turn_end.append(action)
        return self._turns is Turns.ONE_CALL_S

    def settle(self) -> None:
        """Let turns end and syncs be done until nobody asks for one."""
        for _ in range(_SYNCS_MAX):
            actions, self._at_turn_end = self._at_turn_end, []
            for action in actions:
                action()
            if not self.disk.complete_syncs() and not self._at_turn_end:
                return
        raise AssertionError("syncs without end")

    def advance(self, delta_ms: int) -> None:
        self.timers.advance(delta_ms)
        self.settle()

    def beat(self, rounds: int = 1, *, every_ms: int = 0) -> None:
        """Every live DataNode beats and obeys."""
        for _ in range(rounds):
            for node in self.nodes:
                if node.is_running:
                    node.beat()
            self.timers.run_due()
            self.settle()
            if every_ms:
                self.advance(every_ms)

    def run(self, duration_ms: int, step_ms: int = 1_000) -> None:
        """Time passes and DataNodes beat."""
        for _ in range(max(duration_ms // step_ms, 1)):
            self.beat(every_ms=step_ms)

    # -- asking ------------------------------------------------------------------------------

    def caller(self, user: str = SUPERUSER, *groups: str, address: str = "10.9.9.9") -> Caller:
        self.call_id += 1
        return Caller(user, groups, b"simulated-client", self.call_id, address)

    def submit(self, request: Any, caller: Caller | None = None) -> Promise[Any]:
        return ask(self.namenode, request, caller or self.caller())

    def ask(self, request: Any, caller: Caller | None = None) -> Any:
        """The answer, once everything is synced and time has passed if it must."""
        promise = self.submit(request, caller)
        self.settle()
        for _ in range(100):
            if promise.settled:
                break
            self.advance(50)
        return promise.value()

    # -- a writer ----------------------------------------------------------------------------

    def create(self, path: str, client: str = "writer", **changes: Any) -> Any:
        request = requests.Create(
            path, 0o644, client, requests.CREATE, True, min(3, len(self.nodes) or 3), BLOCK_SIZE
        )
        return self.ask(request._replace(**changes))

    def add_block(
        self, path: str, client: str = "writer", previous: ExtendedBlock | None = None
    ) -> LocatedBlock:
        answer = self.ask(requests.AddBlock(path, client, previous))
        assert isinstance(answer, LocatedBlock)
        return answer

    def pipeline(self, located: LocatedBlock, size: int) -> ExtendedBlock:
        """Write `size` bytes through the block's pipeline; what the writer commits."""
        block = located.block._replace(num_bytes=size)
        for storage in located.locations:
            self.node(storage.datanode.uuid).received(block)
        return block

    def write(self, path: str, *sizes: int, client: str = "writer", **changes: Any) -> None:
        """A whole file with blocks of these sizes."""
        self.create(path, client, **changes)
        previous = None
        for size in sizes:
            previous = self.pipeline(self.add_block(path, client, previous), size)
        assert self.ask(requests.Complete(path, client, previous)) is True

    def node(self, uuid: str) -> "SimulatedDatanode":
        return next(node for node in self.nodes if node.uuid == uuid)


class SimulatedDatanode:
    """Replicas as names and lengths."""

    def __init__(self, cluster: SimulatedNameNode, index: int, rack: str) -> None:
        self.cluster = cluster
        self.uuid = f"datanode-{index}"
        self.storage_id = f"DS-{index}"
        self.rack = rack
        self.address = f"10.0.0.{index + 1}"
        self.replicas: dict[int, ReportedReplica] = {}
        self.is_running = True
        self.remaining = 100 * _GIB
        self.deleted: list[BlockName] = []
        self.bad: set[int] = set()
        """Replicas whose bytes are wrong: a copy of one fails, a reader reports it."""
        self.cache_capacity = 0
        self.cached: set[int] = set()
        """Blocks held in memory."""

    @property
    def storage(self) -> StorageReport:
        return StorageReport(
            self.storage_id, capacity=200 * _GIB, remaining=self.remaining, dfs_used=_GIB
        )

    def register(self, *, report: bool = True) -> None:
        if not self.is_running:
            return
        identity = DatanodeIdentity(self.address, self.uuid, self.uuid, 9866, 9864, 9867)
        namenode = self.cluster.namenode
        namenode.register_datanode(
            Registration(
                identity, namenode.ns.namespace_id, "simulated", 0, -57, "3.5.0", self.rack
            )
        )
        namenode.heartbeat(self.uuid, [self.storage])
        if self.cached:
            namenode.cache_report(self.uuid, sorted(self.cached))
        if report:
            self.report()

    def report(self) -> None:
        replicas = list(self.replicas.values())
        done = self.cluster.namenode.block_report(self.uuid, self.storage, replicas)
        for _ in range(10_000):
            if done.settled:
                break
            self.cluster.timers.run_due()
        done.value()
        for block_id in self.bad:
            self._report_bad(self.replicas[block_id])

    def _report_bad(self, mine: ReportedReplica) -> None:
        """A DataNode remembers what its scanner found; the NameNode may not."""
        block = ExtendedBlock("", mine.block_id, mine.generation_stamp, mine.num_bytes)
        place = (self.uuid, self.storage_id)
        self.cluster.namenode.report_bad_blocks([(block, [place])])

    def beat(self) -> None:
        answer = self.cluster.namenode.heartbeat(
            self.uuid,
            [self.storage],
            cache_capacity=self.cache_capacity,
            cache_used=sum(self.replicas[block_id].num_bytes for block_id in self.cached),
        )
        for command in answer.commands:
            if isinstance(command, RegisterCommand):
                self.register()
            elif isinstance(command, InvalidateCommand):
                self._delete(command.blocks)
            elif isinstance(command, TransferCommand):
                for name, targets in command.blocks:
                    self._copy(name, [target.datanode.uuid for target in targets])
            elif isinstance(command, RecoverCommand):
                for block in command.blocks:
                    self.recover(block)
            elif isinstance(command, CacheCommand | UncacheCommand):
                self._cache(command)

    def _cache(self, command: CacheCommand | UncacheCommand) -> None:
        if isinstance(command, CacheCommand):
            self.cached |= {i for i in command.block_ids if i in self.replicas}
        else:
            self.cached -= set(command.block_ids)
        self.cluster.namenode.cache_report(self.uuid, sorted(self.cached))

    def _delete(self, names: tuple[BlockName, ...]) -> None:
        for name in names:
            self.deleted.append(name)
            mine = self.replicas.get(name.block_id)
            if mine is not None and mine.generation_stamp <= name.generation_stamp:
                del self.replicas[name.block_id]
                self.bad.discard(name.block_id)
                self.cached.discard(name.block_id)
                self._tell(DELETED, name.block_id, name.num_bytes, name.generation_stamp)

    def _copy(self, name: BlockName, uuids: list[str]) -> None:
        mine = self.replicas.get(name.block_id)
        if mine is None or mine.generation_stamp != name.generation_stamp:
            return
        if name.block_id in self.bad:
            self._report_bad(mine)
            return
        for uuid in uuids:
            target = self.cluster.node(uuid)
            if target.is_running and name.block_id not in target.replicas:
                target.received(
                    ExtendedBlock("", name.block_id, name.generation_stamp, mine.num_bytes)
                )

    def receiving(self, block: ExtendedBlock) -> None:
        self.replicas[block.block_id] = ReportedReplica(
            block.block_id, block.num_bytes, block.generation_stamp, ReplicaState.RBW
        )

    def received(self, block: ExtendedBlock) -> None:
        """A finalized replica, reported at once."""
        self.bad.discard(block.block_id)
        self.replicas[block.block_id] = ReportedReplica(
            block.block_id, block.num_bytes, block.generation_stamp
        )
        self._tell(RECEIVED, block.block_id, block.num_bytes, block.generation_stamp)

    def lose(self, block_id: int) -> None:
        """A replica is gone, and that is told."""
        gone = self.replicas.pop(block_id)
        self._tell(DELETED, block_id, gone.num_bytes, gone.generation_stamp)

    def copy_from(self, source: "SimulatedDatanode", block_id: int, hint: str = "") -> None:
        """As REPLACE_BLOCK does it for a balancer."""
        replica = self.replicas[block_id] = source.replicas[block_id]
        self._tell(RECEIVED, block_id, replica.num_bytes, replica.generation_stamp, hint)

    def _tell(
        self, status: int, block_id: int, num_bytes: int, generation_stamp: int, hint: str = ""
    ) -> None:
        change = ReceivedDeletedBlock(status, block_id, num_bytes, generation_stamp, hint)
        self.cluster.namenode.incremental_report(self.uuid, self.storage, [change])

    def recover(self, asked: RecoveringBlock) -> None:
        """As the primary of a block recovery: the shortest that has what is known wins (D7)."""
        block_id = asked.block.block_id
        nodes = [self.cluster.node(s.datanode.uuid) for s in asked.locations]
        holders = [n for n in nodes if n.is_running and block_id in n.replicas]
        holders = [
            n
            for n in holders
            if n.replicas[block_id].generation_stamp >= asked.block.generation_stamp
        ]
        known = asked.block.num_bytes
        holders = [n for n in holders if n.replicas[block_id].num_bytes >= known] or holders
        lengths = [n.replicas[block_id].num_bytes for n in holders]
        length = min(lengths, default=0)
        if asked.truncate_block is not None:
            length = asked.truncate_block.num_bytes
        stamp = asked.new_generation_stamp
        new_id = block_id if asked.truncate_block is None else asked.truncate_block.block_id
        for node in holders:
            node.bad.discard(block_id)
            node.replicas[new_id] = ReportedReplica(new_id, length, stamp)
        block = ExtendedBlock("", block_id, asked.block.generation_stamp, asked.block.num_bytes)
        self.cluster.namenode.commit_block_synchronization(
            block,
            stamp,
            length,
            close_file=True,
            delete_block=length == 0,
            new_targets=[(n.uuid, n.storage_id) for n in holders],
        )


def durable_state(ns: Namespace) -> dict[str, Any]:
    """All that the journal must preserve, comparable with ==."""
    return {
        "ids": (
            ns.namespace_id,
            ns.cluster_id,
            ns.pool_id,
            ns.last_inode_id,
            ns.last_block_id,
            ns.generation_stamp,
            ns.last_snapshot_id,
            ns.newest_id,
        ),
        "tree": {inode_id: _inode_state(ns, inode) for inode_id, inode in ns.inodes.items()},
        "detached": {
            inode_id: _inode_state(ns, inode, is_live=False)
            for inode_id, inode in ns.detached.items()
        },
        "blocks": {
            block.block_id: (
                block.generation_stamp,
                block.num_bytes,
                block.file.inode_id if block.file else None,
            )
            for block in ns.blocks.values()
        },
        "leases": {holder: frozenset(lease.files) for holder, lease in ns.leases.by_holder.items()},
        "resumable": dict(ns.leases.resumable),
        "snapshots": dict(ns.snapshots),
        "snapshottable": set(ns.snapshottable),
        "quotas": ns.quota_count,
        "caching": (
            dict(ns.caching.pools),
            dict(ns.caching.directives),
            ns.caching.last_directive_id,
        ),
        "retries": dict(ns.retry_cache.items()),
    }


def _inode_state(ns: Namespace, inode: Inode, *, is_live: bool = True) -> tuple[Any, ...]:
    """What is not live may have had its parent destroyed: it tells no parent."""
    features = inode.features
    quota = features.quota if features is not None else None
    common = (
        inode.inode_id,
        inode.name,
        inode.parent.inode_id if is_live and inode.parent is not None else None,
        tuple(inode.access),
        inode.modification_time_ms,
        inode.acl,
        inode.xattrs,
        inode.storage_policy,
        quota and (quota.namespace, quota.space, quota.namespace_used, quota.space_used),
        None if features is None else features.writer,
        None
        if features is None or features.snapshots is None
        else tuple(features.snapshots.items()),
        _captured_by(ns, inode),
        -1 if features is None else features.frozen_length,
        tuple(
            (saved.snapshot_id, _inode_state(ns, saved.state, is_live=False))
            for saved in inode.saved
        ),
    )
    if isinstance(inode, DirectoryInode):
        children = {name: child.inode_id for name, child in inode.children.items()}
        return (*common, 0 if features is None else features.access_time_ms, children)
    if isinstance(inode, FileInode):
        blocks = tuple(block.block_id for block in inode.blocks)
        return (*common, inode.replication, inode.block_size, inode.access_time_ms, blocks)
    assert isinstance(inode, SymlinkInode)
    return (*common, inode.target)


def _captured_by(ns: Namespace, inode: Inode) -> tuple[int, ...]:
    """Snapshots that are gone may be named still; nobody looks at them."""
    captured = () if inode.features is None else inode.features.captured_by
    return tuple(s.snapshot_id for s in captured if s.snapshot_id in ns.snapshots)
