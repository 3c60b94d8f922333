"""A node's directories before its first start: who they belong to, and who votes.

Owns: `meta.properties` of every log directory and the bootstrap snapshot of the metadata log,
which holds the voters of a new quorum. Must not know: processes, what the quorum does later.
Spec: kafka-storage (KIP-853); the files are Kafka's.

    --standalone                    this node is the only voter
    --initial-controllers LIST      id@host:port:directory-id, the same on every one of them
    --no-initial-controllers        joins a quorum that exists, as an observer

A node that starts on empty directories formats them itself (`prepare`): with a fixed list of
voters (`controller.quorum.voters`) their directory ids are derived from the cluster id and the
node id, so that every voter knows those of the others. The hazard is that of Kafka's
kraft.version 0: a voter whose disk was replaced by an empty one comes back as the same voter, and
the votes it gave are forgotten. Formatting with directory ids does not have it.
"""

import hashlib
from dataclasses import dataclass

from headrace.base.broker_config import BrokerConfig, parse_address
from headrace.base.errors import CorruptionError, UsageError
from headrace.base.ids import uuid_bytes, uuid_text
from headrace.base.randomness import Random
from headrace.base.storage import Storage
from headrace.cluster.metadata_log import metadata_log_path
from headrace.log import checkpoints
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.snapshot_files import find_snapshots, write_bootstrap_snapshot
from headrace.quorum.voters import Endpoint, Voter, VoterSet

NO_VOTERS = VoterSet()


@dataclass(frozen=True, slots=True)
class Formatted:
    """One directory, as it is now."""

    path: str
    directory_id: bytes
    is_new: bool


def new_id_text(random: Random) -> str:
    """An id whose text does not start with a dash, which tools would take for an option."""
    while True:
        text = uuid_text(random.randbytes(16))
        if not text.startswith("-"):
            return text


def derived_directory_id(cluster_id: str, node_id: int) -> bytes:
    """The same on every node that knows both."""
    for attempt in range(1_000):
        told = f"{cluster_id}\0{node_id}\0{attempt}".encode()
        directory_id = hashlib.sha256(told).digest()[:16]
        if not uuid_text(directory_id).startswith("-"):
            return directory_id
    raise AssertionError("one in sixty-four begins with a dash")


def parse_initial_controllers(text: str, listener_name: str) -> VoterSet:
    """`id@host:port:directory-id,…`, as kafka-storage takes it."""
    voters = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        node_id, mark, rest = entry.partition("@")
        address, colon, directory = rest.rpartition(":")
        if not (mark and colon and node_id.isascii() and node_id.isdigit()):
            raise UsageError(f"{entry!r} is not ID@HOST:PORT:DIRECTORY-ID")
        host, port = parse_address("--initial-controllers", address)
        try:
            key = ReplicaKey(int(node_id), uuid_bytes(directory))
        except ValueError:
            raise UsageError(
                f"{directory!r} is no directory id; `headrace storage random-uuid` makes one"
            ) from None
        voters.append(Voter(key, (Endpoint(listener_name, host, port),)))
    if not voters:
        raise UsageError("--initial-controllers names nobody: ID@HOST:PORT:DIRECTORY-ID,…")
    if len({voter.key.id for voter in voters}) != len(voters):
        raise UsageError("--initial-controllers names a node twice")
    return VoterSet(voters)


def initial_controllers_text(voters: VoterSet) -> str:
    """The reverse of `parse_initial_controllers`."""
    return ",".join(
        f"{voter.key.id}@{_address(voter)}:{uuid_text(voter.key.directory_id)}" for voter in voters
    )


def _address(voter: Voter) -> str:
    endpoint = voter.endpoints[0]
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def fixed_voters(config: BrokerConfig, cluster_id: str) -> VoterSet:
    """Those of `controller.quorum.voters`, with derived directory ids."""
    name = config.controller_listener_name
    return VoterSet(
        Voter(
            ReplicaKey(node_id, derived_directory_id(cluster_id, node_id)),
            (Endpoint(name, host, port),),
        )
        for node_id, host, port in config.quorum_voters
    )


def format_node(
    storage: Storage,
    config: BrokerConfig,
    random: Random,
    now_ms: int,
    *,
    cluster_id: str,
    voters: VoterSet,
    standalone: bool = False,
) -> list[Formatted]:
    """Write what is missing; UsageError where a directory is somebody's already.

    `voters` of a new quorum become the bootstrap snapshot of a controller; without any the node
    joins one that exists.
    """
    formatted = _identify(storage, config, random, cluster_id, voters)
    metadata = next(each for each in formatted if each.path == config.metadata_log_dir)
    if standalone:
        voters = VoterSet([own_voter(config, metadata.directory_id)])
    own = voters.with_id(config.node_id)
    if own is not None and own.key.directory_id != metadata.directory_id:
        raise UsageError(
            f"{metadata.path} has the directory id {uuid_text(metadata.directory_id)}, "
            f"not {uuid_text(own.key.directory_id)} as the list of controllers says"
        )
    if len(voters) and config.is_controller:
        folder = metadata_log_path(metadata.path)
        storage.make_directory(folder)
        if not find_snapshots(storage, folder):
            write_bootstrap_snapshot(storage, folder, voters, now_ms)
    return formatted


def own_voter(config: BrokerConfig, directory_id: bytes) -> Voter:
    """This node as a voter; without an endpoint where it has no controller's listener."""
    told = {name: (host, port) for name, host, port in config.advertised_listeners}
    endpoints = tuple(
        Endpoint(name, *told.get(name, (host, port)))
        for name, host, port in config.controller_listeners
    )
    return Voter(ReplicaKey(config.node_id, directory_id), endpoints)


def directories_of(config: BrokerConfig) -> list[str]:
    """Every directory that this node takes possession of; the metadata log's is among them."""
    paths = list(config.log_dirs) if config.is_broker else []
    metadata = config.metadata_log_dir
    assert metadata is not None, "log.dirs is never empty here"
    return paths if metadata in paths else [*paths, metadata]


def _identify(
    storage: Storage, config: BrokerConfig, random: Random, cluster_id: str, voters: VoterSet
) -> list[Formatted]:
    formatted = []
    for path in directories_of(config):
        storage.make_directory(path)
        file = f"{path}/{checkpoints.META_PROPERTIES}"
        properties = checkpoints.read_meta_properties(storage, file)
        if properties is not None:
            _refuse_strangers(path, properties, cluster_id, config.node_id)
            directory_id = _directory_id_in(file, properties)
            formatted.append(Formatted(path, directory_id, is_new=False))
            continue
        own = voters.with_id(config.node_id)
        is_metadata = path == config.metadata_log_dir
        chosen = own.key.directory_id if own is not None and is_metadata else None
        directory_id = chosen or uuid_bytes(new_id_text(random))
        checkpoints.write_meta_properties(
            storage,
            file,
            cluster_id=cluster_id,
            node_id=config.node_id,
            directory_id=uuid_text(directory_id),
        )
        formatted.append(Formatted(path, directory_id, is_new=True))
    return formatted


def _directory_id_in(file: str, properties: dict[str, str]) -> bytes:
    try:
        return uuid_bytes(properties.get("directory.id", ""))
    except ValueError:
        raise CorruptionError(file, 0, "directory.id is not an id") from None


def _refuse_strangers(path: str, properties: dict[str, str], cluster_id: str, node_id: int) -> None:
    stored = properties.get("cluster.id")
    if stored != cluster_id:
        reason = f"{path} belongs to cluster {stored}, not to {cluster_id}"
        raise UsageError(f"{reason}, says its {checkpoints.META_PROPERTIES}")
    if properties.get("node.id") != str(node_id):
        reason = f"{path} belongs to node {properties.get('node.id')}, not to {node_id}"
        raise UsageError(f"{reason}, says its {checkpoints.META_PROPERTIES}")


def prepare(storage: Storage, config: BrokerConfig, random: Random) -> None:
    """What a node does to empty directories at its start: ids that are not for the dice.

    Everything else of an empty directory is `LogDirectory`'s. A fixed quorum needs derived ids.
    """
    if not config.quorum_voters:
        return
    cluster_id: str | None = config["cluster.id"]
    if cluster_id is None:
        raise UsageError(
            "controller.quorum.voters needs cluster.id: the voters' directory ids follow from it"
        )
    if config.is_controller and config.node_id not in {v[0] for v in config.quorum_voters}:
        raise UsageError(
            f"node {config.node_id} is a controller and not in controller.quorum.voters"
        )
    _identify(storage, config, random, cluster_id, fixed_voters(config, cluster_id))


def initial_voters(
    storage: Storage, config: BrokerConfig, cluster_id: str, directory_id: bytes
) -> VoterSet:
    """Who votes as long as no snapshot and no entry says so."""
    if config.quorum_voters:
        return fixed_voters(config, cluster_id)
    if not config.is_controller:
        return NO_VOTERS
    assert config.metadata_log_dir is not None
    folder = metadata_log_path(config.metadata_log_dir)
    if looks_elsewhere(config) and not _led_alone_before(storage, folder):
        return NO_VOTERS
    return VoterSet([own_voter(config, directory_id)])


def looks_elsewhere(config: BrokerConfig) -> bool:
    """Is the quorum to be found at others? Kafka's own example files name the node itself."""
    own = set()
    for name, host, port in (*config.controller_listeners, *config.advertised_listeners):
        if name == config.controller_listener_name and port:
            own |= {(host, port), ("localhost", port), ("127.0.0.1", port)}
    return not own.issuperset(config.quorum_bootstrap_servers)


def _led_alone_before(storage: Storage, folder: str) -> bool:
    """A log from before there were quorums: entries, and nothing that elections leave."""
    if not storage.is_directory(folder):
        return False
    names = storage.list(folder)
    if "quorum-state" in names or any(name.endswith(".checkpoint") for name in names):
        return False
    return any(name.endswith(".log") and storage.size(f"{folder}/{name}") for name in names)
