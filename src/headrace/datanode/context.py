"""What every conversation of a DataNode needs: its replicas, its seams, its counters.

Owns: nothing but the references and the counts. Must not know: any conversation.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.base.clock import Clock, Timers
from headrace.base.events import EventLog
from headrace.datanode.dataset import Dataset
from headrace.datanode.page_cache import NO_ADVICE, CacheSettings, NoPageCache, PageCache
from headrace.datanode.streams import Connect
from headrace.datanode.sync_habits import SyncHabits
from headrace.datanode.throttle import Throttle
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeIDProto
from headrace.wire.hadoop.transfer import ExtendedBlock

MIB = 1024 * 1024


@dataclass(slots=True)
class TransferCounters:
    bytes_written: int = 0
    bytes_read: int = 0
    blocks_written: int = 0
    blocks_read: int = 0
    blocks_replicated: int = 0
    checksum_failures: int = 0
    refusals: int = 0
    syncs: int = 0
    mirror_failures: int = 0
    blocks_scanned: int = 0
    bytes_scanned: int = 0


@dataclass(frozen=True, slots=True)
class TransferSettings:
    read_packet_bytes: int = 2 * MIB
    """Data of one packet of a read: large ones mean few headers and one sendfile each."""
    socket_timeout_ms: int = 60_000
    socket_write_timeout_ms: int = 480_000
    extension_ms: int = 5_000
    """How much longer each further node of a pipeline may take."""
    keepalive_ms: int = 4_000
    transfers_max: int = 4096
    min_length_wait_ms: int = 3_000
    sync_on_close: bool = False
    """`dfs.datanode.synconclose`: every replica is on disk when its last packet is acked."""
    caching: CacheSettings = NO_ADVICE
    direct_writes: bool = True
    """Large replicas of writers that sync go around the page cache."""


@dataclass(slots=True)
class Context:
    dataset: Dataset
    connect: Connect
    clock: Clock
    timers: Timers
    log: EventLog
    settings: TransferSettings = field(default_factory=TransferSettings)
    counters: TransferCounters = field(default_factory=TransferCounters)
    identity: DatanodeIDProto = field(default_factory=DatanodeIDProto)
    active: int = 0
    """Operations under way: what a heartbeat calls the xceiver count."""
    report_bad_block: Callable[[ExtendedBlock, DatanodeIDProto | None], None] = (
        lambda _block, _node: None
    )
    """Tell the NameNode that a replica is corrupt: our own, or that of another node."""
    page_cache: PageCache = field(default_factory=NoPageCache)
    sync_habits: SyncHabits = field(default_factory=SyncHabits)
    balancing: Throttle | None = None
    """Bounds what a balancer has this node send; None: nothing does."""
    suspect: Callable[[int], None] = lambda _block_id: None
    """Have a replica looked at soon: somebody could not read it."""
