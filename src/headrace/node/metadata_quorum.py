"""The quorum of `__cluster_metadata` on one node: its replica and the host of the cluster's image.

Owns: how configuration and directories become a replica. Controllers vote, or join as observers;
brokers follow as observers. Must not know: what is decided, sockets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.base.broker_config import BrokerConfig
from headrace.base.ids import METADATA_TOPIC_ID
from headrace.cluster.image import ClusterImage
from headrace.cluster.metadata_log import METADATA_CODEC, open_metadata_log
from headrace.cluster.topic_names import CLUSTER_METADATA_TOPIC
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.node.formatting import initial_voters
from headrace.node.seams import Seams
from headrace.quorum.host import Host
from headrace.quorum.peers import Peers
from headrace.quorum.replica import Replica
from headrace.quorum.settings import Identity, QuorumSettings
from headrace.quorum.snapshotting import SnapshotPolicy
from headrace.quorum.voters import Endpoint

FIRST_BOOTSTRAP_ID = -2
"""Servers whose id nobody knows yet count down from here, as Kafka numbers them."""
FETCH_WAIT_MS_MAX = 250


@dataclass(frozen=True, slots=True)
class MetadataQuorum:
    log: PartitionLog
    replica: Replica
    host: Host[ClusterImage]


def quorum_settings(config: BrokerConfig) -> QuorumSettings:
    fetch_timeout_ms = int(config["controller.quorum.fetch.timeout.ms"])
    asked_ms = int(config["controller.quorum.request.timeout.ms"])
    request_timeout_ms = min(asked_ms, fetch_timeout_ms)
    return QuorumSettings(
        election_timeout_ms=int(config["controller.quorum.election.timeout.ms"]),
        fetch_timeout_ms=fetch_timeout_ms,
        fetch_max_wait_ms=min(FETCH_WAIT_MS_MAX, request_timeout_ms // 2),
        request_timeout_ms=request_timeout_ms,
        retry_backoff_ms=int(config["controller.quorum.retry.backoff.ms"]),
    )


def bootstrap_addresses(config: BrokerConfig) -> list[tuple[str, int]]:
    """Controllers to ask while nobody knows who leads."""
    fixed = [(host, port) for _, host, port in config.quorum_voters]
    return list(config.quorum_bootstrap_servers) or fixed


def bootstrap_ids(addresses: Sequence[tuple[str, int]]) -> list[int]:
    return [FIRST_BOOTSTRAP_ID - index for index in range(len(addresses))]


def open_metadata_quorum(
    config: BrokerConfig,
    seams: Seams,
    files: FileBudget,
    cluster_id: str,
    directory_id: bytes,
    peers: Peers,
    listener: Endpoint,
) -> MetadataQuorum:
    """From what is on disk; nothing moves before `host.start`."""
    directory = config.metadata_log_dir
    assert directory is not None, "log.dirs is never empty here"
    # Before the log is opened: what is found there tells who led it.
    voters = initial_voters(seams.storage, config, cluster_id, directory_id)
    log = open_metadata_log(seams.storage, directory, seams.clock, files)
    replica = Replica.open(
        identity=Identity(
            cluster_id=cluster_id,
            topic_name=CLUSTER_METADATA_TOPIC,
            topic_id=METADATA_TOPIC_ID,
            node_id=config.node_id,
            directory_id=directory_id,
        ),
        settings=quorum_settings(config),
        log=log,
        storage=seams.storage,
        clock=seams.clock,
        timers=seams.timers,
        random=seams.random,
        peers=peers,
        initial_voters=voters,
        bootstrap_ids=bootstrap_ids(bootstrap_addresses(config)),
        listener=listener,
        events=seams.log,
        on_fatal=seams.on_fatal,
    )
    host = Host(
        replica,
        ClusterImage,
        METADATA_CODEC,
        seams.clock,
        seams.timers,
        SnapshotPolicy(
            bytes_between=int(config["metadata.log.max.record.bytes.between.snapshots"]),
            interval_ms=int(config["metadata.log.max.snapshot.interval.ms"]),
        ),
    )
    return MetadataQuorum(log, replica, host)
