"""A broker with its controller, put together over given seams.

Owns: the order in which the parts of one node are made. The real node gives it disks, clocks and
sockets (`node.broker`), the simulator its twins (`testing.broker`): the broker can't tell.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock, Timers
from headrace.base.errors import UsageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.broker.broker import Broker
from headrace.broker.partitions import Partitions
from headrace.cluster.controller import Controller
from headrace.cluster.image import ClusterImage
from headrace.cluster.metadata_log import METADATA_CODEC, open_metadata_log
from headrace.log.directory import LockingStorage, LogDirectory
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.quorum.sole_host import SoleHost as Host
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest, Listener

Addresses = dict[str, tuple[str, int]]
"""What clients of each listener are told to connect to."""


@dataclass(frozen=True, slots=True)
class Seams:
    """All that a node touches of the world outside."""

    storage: LockingStorage
    clock: Clock
    timers: Timers
    random: Random
    log: EventLog
    on_fatal: Callable[[BaseException], None]


@dataclass(slots=True)
class AssembledBroker:
    """The parts of one running node."""

    broker: Broker
    controller: Controller
    directories: list[LogDirectory]
    metadata_log: PartitionLog
    broker_epoch: int = -1

    def register(self, seams: Seams, advertised: Addresses) -> Promise[int]:
        """Announce this process to the controller; the promise holds the broker's epoch."""
        registration = BrokerRegistrationRequest(
            broker_id=self.broker.node_id,
            cluster_id=self.broker.cluster_id,
            incarnation_id=seams.random.randbytes(16),
            listeners=[
                Listener(name=name, host=host, port=port, security_protocol=0)
                for name, (host, port) in advertised.items()
            ],
            rack=self.broker.config["broker.rack"],
            log_dirs=self.broker.partitions.directory_ids,
        )
        unclean = not all(directory.was_clean for directory in self.directories)
        return self.controller.start(registration, unclean=unclean).map(self._on_registered)

    def _on_registered(self, broker_epoch: int) -> int:
        self.broker_epoch = broker_epoch
        self.broker.groups.start()
        self.broker.transactions.start()
        return broker_epoch

    def close(self) -> bool:
        """Flush, checkpoint and mark clean; False if the next start has to recover something.

        Raises StorageError where a disk refuses.
        """
        is_clean = self.broker.partitions.close(self.broker_epoch)
        self.metadata_log.close()
        return is_clean


def open_directories(
    config: BrokerConfig, seams: Seams, files: FileBudget
) -> tuple[str, list[LogDirectory]]:
    """Open or format every log directory; the cluster id they agree on."""
    cluster_id: str | None = config["cluster.id"]
    directories: list[LogDirectory] = []
    for path in config.log_dirs:
        directory = LogDirectory.open(
            seams.storage,
            path,
            seams.clock,
            files,
            cluster_id=cluster_id,
            node_id=config.node_id,
            random=seams.random,
        )
        if directory.failure is not None:
            seams.log.error("log_dir_failed", path=path, error=str(directory.failure.cause))
        directories.append(directory)
        cluster_id = directory.cluster_id or cluster_id
    if all(directory.failure is not None for directory in directories) or cluster_id is None:
        raise UsageError(f"no log directory can be used: {', '.join(config.log_dirs)}")
    return cluster_id, directories


def assemble(
    config: BrokerConfig,
    seams: Seams,
    files: FileBudget,
    cluster_id: str,
    directories: list[LogDirectory],
    advertised: Addresses,
) -> AssembledBroker:
    """Make the parts, replay the metadata log and open the partitions it names."""
    node_id = config.node_id
    metadata_directory = config.metadata_log_dir
    assert metadata_directory is not None, "log.dirs is never empty here"
    metadata_log = open_metadata_log(seams.storage, metadata_directory, seams.clock, files)
    host: Host[ClusterImage] = Host(
        metadata_log,
        ClusterImage(),
        METADATA_CODEC,
        seams.clock,
        node_id,
        on_committed=lambda records, offset: broker.on_committed(records, offset),
        on_fatal=seams.on_fatal,
    )
    controller = Controller(host, config, seams.random)
    broker = Broker(
        node_id=node_id,
        cluster_id=cluster_id,
        config=config,
        clock=seams.clock,
        timers=seams.timers,
        random=seams.random,
        storage=seams.storage,
        log=seams.log,
        partitions=Partitions(node_id, directories, config, seams.clock, seams.log),
        controller=controller,
        advertised=advertised,
    )
    host.load()
    return AssembledBroker(broker, controller, directories, metadata_log)
