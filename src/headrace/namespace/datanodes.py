"""DataNodes as the NameNode sees them: who registered, their storages, when they last spoke.

Owns: `DatanodeDescriptor`, `StorageInfo`, the shapes of reports and commands, and `DatanodeTable`.
Must not know: blocks of the tree beyond their numbers, RPC messages.
Soft state: nothing here is journalled; a restarted NameNode hears it all again.

Invariants: one descriptor a DataNode UUID; a transfer address belongs to one UUID (a reformatted
node replaces its former self); a node that is dead has no storage that counts.
"""

from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

DEFAULT_RACK = "/default-rack"


class AdminState(IntEnum):
    """As DatanodeInfoProto.AdminState numbers them."""

    NORMAL = 0
    DECOMMISSION_INPROGRESS = 1
    DECOMMISSIONED = 2
    ENTERING_MAINTENANCE = 3
    IN_MAINTENANCE = 4


class ReplicaState(IntEnum):
    """As ReplicaStateProto numbers them."""

    FINALIZED = 0
    RBW = 1
    RWR = 2
    RUR = 3
    TEMPORARY = 4


STORAGE_DISK = 1
"""StorageTypeProto's number."""
STORAGE_NORMAL = 0
STORAGE_READ_ONLY = 1
STORAGE_FAILED = 2


class DatanodeIdentity(NamedTuple):
    """As DatanodeIDProto."""

    ip_address: str
    host_name: str
    uuid: str
    xfer_port: int
    info_port: int
    ipc_port: int
    info_secure_port: int = 0


class Registration(NamedTuple):
    identity: DatanodeIdentity
    namespace_id: int
    cluster_id: str
    c_time: int
    layout_version: int
    software_version: str
    rack: str = DEFAULT_RACK


class StorageReport(NamedTuple):
    """As StorageReportProto."""

    storage_id: str
    storage_type: int = STORAGE_DISK
    state: int = STORAGE_NORMAL
    capacity: int = 0
    dfs_used: int = 0
    remaining: int = 0
    block_pool_used: int = 0
    non_dfs_used: int = 0
    has_failed: bool = False


class ReportedReplica(NamedTuple):
    block_id: int
    num_bytes: int
    generation_stamp: int
    state: int = ReplicaState.FINALIZED


RECEIVING, RECEIVED, DELETED = 1, 2, 3
"""ReceivedDeletedBlockInfoProto.BlockStatus."""


class ReceivedDeletedBlock(NamedTuple):
    status: int
    block_id: int
    num_bytes: int
    generation_stamp: int
    delete_hint: str = ""


class BlockName(NamedTuple):
    """As BlockProto."""

    block_id: int
    generation_stamp: int
    num_bytes: int


# -- what a heartbeat answers -------------------------------------------------------------------


class TransferCommand(NamedTuple):
    """DNA_TRANSFER: copy each block to its targets."""

    blocks: tuple[tuple[BlockName, tuple["StorageInfo", ...]], ...]


class InvalidateCommand(NamedTuple):
    """DNA_INVALIDATE."""

    blocks: tuple[BlockName, ...]


class RecoveringBlock(NamedTuple):
    block: BlockName
    locations: tuple["StorageInfo", ...]
    new_generation_stamp: int
    truncate_block: BlockName | None = None


class RecoverCommand(NamedTuple):
    """BlockRecoveryCommand."""

    blocks: tuple[RecoveringBlock, ...]


class RegisterCommand(NamedTuple):
    """DNA_REGISTER: the NameNode does not know this DataNode."""


class FinalizeCommand(NamedTuple):
    """DNA_FINALIZE, after a full block report."""

    pool_id: str


class BalancerBandwidthCommand(NamedTuple):
    bandwidth: int


class CacheCommand(NamedTuple):
    """BlockIdCommand, DNA_CACHE: hold these blocks in memory."""

    block_ids: tuple[int, ...]


class UncacheCommand(NamedTuple):
    """BlockIdCommand, DNA_UNCACHE."""

    block_ids: tuple[int, ...]


Command = (
    TransferCommand
    | InvalidateCommand
    | RecoverCommand
    | RegisterCommand
    | FinalizeCommand
    | BalancerBandwidthCommand
    | CacheCommand
    | UncacheCommand
)


class HeartbeatAnswer(NamedTuple):
    commands: tuple[Command, ...]
    full_block_report_lease_id: int = 0


# -- state --------------------------------------------------------------------------------------


class ReportUnderWay:
    """What came in between the slices of a full report, and is newer than it."""

    __slots__ = ("added", "deleted")

    def __init__(self) -> None:
        self.added: set[int] = set()
        self.deleted: set[int] = set()


class StorageInfo:
    """One storage (a volume's folder) of a DataNode."""

    __slots__ = (
        "block_count",
        "block_pool_used",
        "capacity",
        "datanode",
        "dfs_used",
        "has_reported",
        "is_of_before",
        "non_dfs_used",
        "remaining",
        "report",
        "state",
        "storage_id",
        "storage_type",
    )

    def __init__(self, datanode: "DatanodeDescriptor", storage_id: str, storage_type: int) -> None:
        self.datanode = datanode
        self.storage_id = storage_id
        self.storage_type = storage_type
        self.state = STORAGE_NORMAL
        self.capacity = 0
        self.dfs_used = 0
        self.remaining = 0
        self.block_pool_used = 0
        self.non_dfs_used = 0
        self.block_count = 0
        self.report: ReportUnderWay | None = None
        self.has_reported = False
        """A full block report came since the DataNode registered."""
        self.is_of_before = False
        """It was there when the DataNode registered last: the node may have come without it."""

    def __repr__(self) -> str:
        return f"{self.datanode.name}[{self.storage_id}]"


class DatanodeDescriptor:
    __slots__ = (
        "admin_state",
        "balancer_bandwidth",
        "cache_capacity",
        "cache_told",
        "cache_told_ms",
        "cache_used",
        "cached",
        "failed_volumes",
        "identity",
        "is_alive",
        "is_doubtful",
        "last_block_report_ms",
        "last_heartbeat_ms",
        "last_update_ms",
        "maintenance_expire_ms",
        "must_register",
        "rack",
        "software_version",
        "storages",
        "to_cache",
        "to_invalidate",
        "to_recover",
        "to_transfer",
        "to_uncache",
        "xceiver_count",
        "xmits_in_progress",
    )

    def __init__(self, identity: DatanodeIdentity, rack: str, software_version: str) -> None:
        self.identity = identity
        self.rack = rack
        self.software_version = software_version
        self.storages: dict[str, StorageInfo] = {}
        self.admin_state = AdminState.NORMAL
        self.maintenance_expire_ms = 0
        self.is_alive = True
        self.must_register = False
        """To report all that it has once more, as after a restart."""
        self.is_doubtful = False
        """Its connection ended or it is stale, and nothing was heard of it since: new blocks go
        elsewhere and readers ask it last, long before it counts as dead."""
        self.last_heartbeat_ms = 0
        """Monotonic; what death is judged by."""
        self.last_update_ms = 0
        """Wall time, for reports to people."""
        self.last_block_report_ms = 0
        self.xceiver_count = 0
        self.xmits_in_progress = 0
        self.failed_volumes = 0
        self.balancer_bandwidth = 0
        """To be told with the next heartbeat; 0: nothing to tell."""
        self.to_transfer: deque[tuple[BlockName, tuple[StorageInfo, ...]]] = deque()
        self.to_invalidate: dict[int, BlockName] = {}
        self.to_recover: dict[int, RecoveringBlock] = {}
        self.cache_capacity = 0
        self.cache_used = 0
        self.cached: frozenset[int] = frozenset()
        """Blocks that it holds in memory, as it reported."""
        self.to_cache: dict[int, None] = {}
        self.to_uncache: dict[int, None] = {}
        self.cache_told: frozenset[tuple[bool, int]] = frozenset()
        """What it was told since `cache_told_ms`; True: to hold that block."""
        self.cache_told_ms = -1

    @property
    def uuid(self) -> str:
        return self.identity.uuid

    @property
    def name(self) -> str:
        """Transfer address, as Hadoop names nodes."""
        return f"{self.identity.ip_address}:{self.identity.xfer_port}"

    @property
    def capacity(self) -> int:
        return sum(storage.capacity for storage in self.storages.values())

    @property
    def dfs_used(self) -> int:
        return sum(storage.dfs_used for storage in self.storages.values())

    @property
    def non_dfs_used(self) -> int:
        return sum(storage.non_dfs_used for storage in self.storages.values())

    @property
    def remaining(self) -> int:
        return sum(storage.remaining for storage in self.storages.values())

    @property
    def block_pool_used(self) -> int:
        return sum(storage.block_pool_used for storage in self.storages.values())

    @property
    def block_count(self) -> int:
        return sum(storage.block_count for storage in self.storages.values())

    @property
    def in_service(self) -> bool:
        return self.is_alive and self.admin_state is AdminState.NORMAL

    def __repr__(self) -> str:
        return f"DatanodeDescriptor({self.name}, {self.uuid})"


class DatanodeTable:
    """All DataNodes that ever registered with this NameNode process."""

    def __init__(self) -> None:
        self.by_uuid: dict[str, DatanodeDescriptor] = {}
        self._by_name: dict[str, DatanodeDescriptor] = {}
        self._rack_count = 0

    def get(self, uuid: str) -> DatanodeDescriptor | None:
        return self.by_uuid.get(uuid)

    def at(self, name: str) -> DatanodeDescriptor | None:
        return self._by_name.get(name)

    def put(self, node: DatanodeDescriptor) -> None:
        self.by_uuid[node.uuid] = node
        self._by_name[node.name] = node

    def remove(self, node: DatanodeDescriptor) -> None:
        self.by_uuid.pop(node.uuid, None)
        if self._by_name.get(node.name) is node:
            del self._by_name[node.name]

    def move(self, node: DatanodeDescriptor, identity: DatanodeIdentity) -> None:
        """A known DataNode came back at another address."""
        if self._by_name.get(node.name) is node:
            del self._by_name[node.name]
        node.identity = identity
        self._by_name[node.name] = node

    @property
    def has_racks(self) -> bool:
        """More than one, among those that serve."""
        return self._rack_count > 1

    def count_racks(self) -> None:
        """After a DataNode came, went, or changed its rack or state."""
        self._rack_count = len({node.rack for node in self.by_uuid.values() if node.in_service})

    def live(self) -> list[DatanodeDescriptor]:
        return [node for node in self.by_uuid.values() if node.is_alive]

    def serving(self) -> list[DatanodeDescriptor]:
        """Whom clients may be sent to: nobody doubtful while there is one that is not."""
        in_service = [node for node in self.by_uuid.values() if node.in_service]
        return [node for node in in_service if not node.is_doubtful] or in_service

    def doubtful(self) -> list[DatanodeDescriptor]:
        return [node for node in self.live() if node.is_doubtful]

    def storage(self, uuid: str, storage_id: str) -> StorageInfo | None:
        node = self.by_uuid.get(uuid)
        return None if node is None else node.storages.get(storage_id)

    def __iter__(self) -> Iterator[DatanodeDescriptor]:
        return iter(self.by_uuid.values())

    def __len__(self) -> int:
        return len(self.by_uuid)
