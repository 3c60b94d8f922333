"""A node's directories before its first start."""

from random import Random

import pytest

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import CorruptionError, UsageError
from headrace.base.ids import uuid_bytes, uuid_text
from headrace.cluster.metadata_log import metadata_log_path
from headrace.log import checkpoints
from headrace.node.formatting import (
    NO_VOTERS,
    derived_directory_id,
    directories_of,
    fixed_voters,
    format_node,
    initial_controllers_text,
    initial_voters,
    new_id_text,
    parse_initial_controllers,
    prepare,
)
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.snapshot_files import find_snapshots, read_snapshot_voters
from headrace.testing.disk import SimulatedDisk

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
DIRECTORY = uuid_text(bytes(15) + b"\x07")
LIST = f"101@h1:9093:{DIRECTORY},102@[::1]:9094:{uuid_text(bytes(15) + b'x')}"


def config(roles: str = "controller", node_id: int = 101, **flags: str) -> BrokerConfig:
    given = {key.replace("_", "."): value for key, value in flags.items()}
    listeners = {
        "controller": "CONTROLLER://127.0.0.1:9093",
        "broker": "PLAINTEXT://127.0.0.1:9092",
        "broker,controller": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    }[roles]
    if roles == "broker":
        given.setdefault("controller.quorum.bootstrap.servers", "127.0.0.1:9093")
    return BrokerConfig.of(
        {
            "process.roles": roles,
            "node.id": str(node_id),
            "listeners": listeners,
            "log.dirs": "/a,/b",
            **given,
        }
    )


def properties(disk: SimulatedDisk, path: str) -> dict[str, str]:
    found = checkpoints.read_meta_properties(disk, f"{path}/{checkpoints.META_PROPERTIES}")
    assert found is not None
    return found


def test_a_list_of_controllers_is_read_and_told_again() -> None:
    voters = parse_initial_controllers(LIST, "CONTROLLER")
    assert [voter.key.id for voter in voters] == [101, 102]
    first, second = voters
    assert first.key.directory_id == uuid_bytes(DIRECTORY)
    assert (second.endpoints[0].host, second.endpoints[0].port) == ("::1", 9094)
    assert initial_controllers_text(voters) == LIST


@pytest.mark.parametrize(
    "text",
    ["", "101", "101@h", "101@h:9093", "x@h:1:" + DIRECTORY, "1@h:1:short", f"{LIST},{LIST}"],
)
def test_a_wrong_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_initial_controllers(text, "CONTROLLER")


def test_a_first_voter_gets_its_directory_id_and_the_voters() -> None:
    disk, voters = SimulatedDisk(), parse_initial_controllers(LIST, "CONTROLLER")
    format_node(disk, config(), Random(1), 0, cluster_id=CLUSTER, voters=voters)
    assert properties(disk, "/a")["directory.id"] == DIRECTORY
    assert properties(disk, "/a")["cluster.id"] == CLUSTER
    folder = metadata_log_path("/a")
    assert list(find_snapshots(disk, folder)) == [SnapshotId(0, 0)]
    assert read_snapshot_voters(disk, folder, SnapshotId(0, 0)) == voters
    # A controller alone keeps nothing but metadata.
    assert directories_of(config()) == ["/a"]


def test_standalone_is_a_quorum_of_one() -> None:
    disk = SimulatedDisk()
    both = config("broker,controller", 1)
    formatted = format_node(
        disk, both, Random(1), 0, cluster_id=CLUSTER, voters=NO_VOTERS, standalone=True
    )
    assert [each.path for each in formatted] == ["/a", "/b"]
    (voter,) = read_snapshot_voters(disk, metadata_log_path("/a"), SnapshotId(0, 0))
    assert (voter.key.id, voter.key.directory_id) == (1, formatted[0].directory_id)
    assert voter.endpoints[0].port == 9093


def test_without_initial_controllers_there_are_no_voters() -> None:
    disk = SimulatedDisk()
    format_node(disk, config(), Random(1), 0, cluster_id=CLUSTER, voters=NO_VOTERS)
    assert not disk.is_directory(metadata_log_path("/a"))


def test_formatting_again_changes_nothing() -> None:
    disk, voters = SimulatedDisk(), parse_initial_controllers(LIST, "CONTROLLER")
    for _ in range(2):
        (formatted,) = format_node(disk, config(), Random(1), 0, cluster_id=CLUSTER, voters=voters)
    assert not formatted.is_new
    other = parse_initial_controllers(LIST.replace("101@", "103@"), "CONTROLLER")
    with pytest.raises(UsageError, match="belongs to node 101"):
        format_node(disk, config(node_id=103), Random(1), 0, cluster_id=CLUSTER, voters=other)
    with pytest.raises(UsageError, match="belongs to cluster"):
        format_node(disk, config(), Random(1), 0, cluster_id="other", voters=voters)


def test_a_directory_that_is_another_is_not_made_a_voter() -> None:
    disk = SimulatedDisk()
    format_node(disk, config(), Random(1), 0, cluster_id=CLUSTER, voters=NO_VOTERS)
    voters = parse_initial_controllers(LIST, "CONTROLLER")
    with pytest.raises(UsageError, match="as the list of controllers says"):
        format_node(disk, config(), Random(1), 0, cluster_id=CLUSTER, voters=voters)


def test_a_fixed_quorum_knows_everybodys_directory() -> None:
    fixed = config(controller_quorum_voters="101@h1:1,102@h2:2", cluster_id=CLUSTER)
    voters = fixed_voters(fixed, CLUSTER)
    assert [voter.key.directory_id for voter in voters] == [
        derived_directory_id(CLUSTER, 101),
        derived_directory_id(CLUSTER, 102),
    ]
    disk = SimulatedDisk()
    prepare(disk, fixed, Random(1))
    assert properties(disk, "/a")["directory.id"] == uuid_text(derived_directory_id(CLUSTER, 101))
    assert initial_voters(disk, fixed, CLUSTER, bytes(16)) == voters


def test_a_fixed_quorum_needs_its_cluster_and_its_members() -> None:
    disk = SimulatedDisk()
    with pytest.raises(UsageError, match=r"needs cluster\.id"):
        prepare(disk, config(controller_quorum_voters="101@h1:1"), Random(1))
    other = config(controller_quorum_voters="102@h1:1", cluster_id=CLUSTER)
    with pytest.raises(UsageError, match=r"not in controller\.quorum\.voters"):
        prepare(disk, other, Random(1))


def test_who_votes_where_nothing_was_said() -> None:
    disk, directory_id = SimulatedDisk(), bytes(15) + b"d"
    alone = initial_voters(disk, config("broker,controller", 1), CLUSTER, directory_id)
    assert [(key.id, key.directory_id) for key in alone.keys] == [(1, directory_id)]
    joining = config(controller_quorum_bootstrap_servers="h:1")
    assert initial_voters(disk, joining, CLUSTER, directory_id) == NO_VOTERS
    assert initial_voters(disk, config("broker", 2), CLUSTER, directory_id) == NO_VOTERS


@pytest.mark.parametrize("server", ["localhost:9093", "127.0.0.1:9093"])
def test_a_file_that_names_the_node_itself_is_a_quorum_of_one(server: str) -> None:
    disk, directory_id = SimulatedDisk(), bytes(15) + b"d"
    alone = config("broker,controller", 1, controller_quorum_bootstrap_servers=server)
    assert [key.id for key in initial_voters(disk, alone, CLUSTER, directory_id).keys] == [1]
    both = config(
        "broker,controller", 1, controller_quorum_bootstrap_servers=f"{server},other:9093"
    )
    assert initial_voters(disk, both, CLUSTER, directory_id) == NO_VOTERS


def test_a_log_from_before_there_were_quorums_is_led_by_its_own() -> None:
    disk, directory_id = SimulatedDisk(), bytes(15) + b"d"
    folder = metadata_log_path("/a")
    disk.make_directory(folder)
    disk.open(f"{folder}/00000000000000000000.log", create=True).write([b"entries"])
    grown = config(controller_quorum_bootstrap_servers="h:1")
    assert [key.id for key in initial_voters(disk, grown, CLUSTER, directory_id).keys] == [101]
    disk.open(f"{folder}/quorum-state", create=True).write([b"{}"])
    assert initial_voters(disk, grown, CLUSTER, directory_id) == NO_VOTERS


def test_ids_never_look_like_options() -> None:
    random = Random(5)
    assert not any(new_id_text(random).startswith("-") for _ in range(300))
    texts = [uuid_text(derived_directory_id(CLUSTER, node_id)) for node_id in range(300)]
    assert not any(text.startswith("-") for text in texts)
    assert len(set(texts)) == 300


@pytest.mark.parametrize("line", ["dirfctory.id=AAAAAAAAAAAAAAAAAAAAAQ", "directory.id=AAAA"])
def test_a_damaged_directory_id_is_told_with_its_file(line: str) -> None:
    storage = SimulatedDisk()
    storage.make_directory("d")
    text = f"cluster.id={CLUSTER}\n{line}\nnode.id=101\nversion=1\n"
    storage.replace_file("d/meta.properties", text.encode())
    voters = {"controller.quorum.voters": "101@127.0.0.1:9093", "cluster.id": CLUSTER}
    given = {key.replace(".", "_"): value for key, value in voters.items()}
    with pytest.raises(CorruptionError, match=r"d/meta\.properties"):
        prepare(storage, config(log_dirs="d", **given), Random(1))
