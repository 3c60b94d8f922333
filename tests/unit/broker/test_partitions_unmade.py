"""Partitions without a folder: what they answer, when they get one, and that none is lost."""

from typing import Any

import pytest
from tests.unit.broker.dialogue import (
    FETCH_VERSION,
    NOW_MS,
    PRODUCE_VERSION,
    Client,
    batch,
    delete_records,
    dialogue,
    only_fetched,
    only_produced,
    values_of,
    wanted,
)

from headrace.cluster.image import ClusterImage
from headrace.log.directory import LogDirectory
from headrace.log.unmade_log import UnmadeLog
from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.kafka.messages.fetch import FetchRequest
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headrace.wire.kafka.messages.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from headrace.wire.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headrace.wire.kafka.messages.produce import ProduceRequest

OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR


def folders(broker: SimulatedBroker, topic: str = "t", path: str = "/data") -> list[str]:
    names = broker.disk.list(path)
    return sorted(name for name in names if name.startswith(f"{topic}-"))


def restarted(broker: SimulatedBroker, end: str) -> Client:
    getattr(broker, end)()
    broker.start()
    return Client(broker)


def list_offset(client: Client, timestamp: int) -> tuple[int, int, int, int]:
    one = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[one])])
    found = client.ask(request, 8).topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def epoch_end(client: Client, epoch: int) -> tuple[int, int, int]:
    one = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[one])]
    )
    found = client.ask(request, 4).topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


def delete_topic(client: Client, name: str) -> None:
    response = client.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)
    assert response.responses[0].error_code == 0


# -- an unused partition answers as an empty one -------------------------------------------------


def everything_told_of_an_empty_log(client: Client) -> dict[str, Any]:
    read = client.fetch("t", 0, 0)
    outside = client.fetch("t", 0, 5)
    epoch_asked = client.fetch("t", 0, 0, isolation_level=1)
    (directory,) = client.ask(DescribeLogDirsRequest(topics=None), 4).results
    return {
        "fetch": (read.error_code, read.high_watermark, read.log_start_offset, read.records),
        "fetch committed": (epoch_asked.last_stable_offset, epoch_asked.aborted_transactions),
        "fetch outside": outside.error_code,
        "offsets": [list_offset(client, timestamp) for timestamp in (-1, -2, -3, -4, 0, NOW_MS)],
        "epochs": [epoch_end(client, epoch) for epoch in (-1, 0, 1)],
        "directory": [(t.name, [vars_of(p) for p in t.partitions]) for t in directory.topics],
    }


def vars_of(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in message.FIELDS}


def test_nothing_is_made_for_what_an_empty_log_answers() -> None:
    broker, client = dialogue("t", 1)
    unmade = everything_told_of_an_empty_log(client)
    assert delete_records(client, "t", 0, 0) == 0
    for upkeep in ("flush_due", "retain", "checkpoint", "sweep"):
        getattr(broker.broker.partitions, upkeep)()
    assert folders(broker) == []
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    assert isinstance(partition.log, UnmadeLog)
    partition.log.made()
    assert not isinstance(partition.log, UnmadeLog)
    assert folders(broker) == ["t-0"]
    assert everything_told_of_an_empty_log(client) == unmade


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_the_first_batch_makes_the_folder_and_no_other(end: str) -> None:
    broker, client = dialogue("t", 5, flush_messages="1")
    assert client.produce("t", 3, batch("a")).base_offset == 0
    assert folders(broker) == ["t-3"]
    client = restarted(broker, end)
    assert folders(broker) == ["t-3"]
    assert values_of(client.fetch("t", 3, 0)) == ["a"]
    assert client.fetch("t", 0, 0).high_watermark == 0
    assert client.produce("t", 0, batch("b")).base_offset == 0
    assert folders(broker) == ["t-0", "t-3"]


def test_creating_and_starting_touch_no_file_of_a_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    broker, _ = dialogue("t", 1)
    for name in ("open", "exists", "is_directory", "make_directory", "list", "sync_directory"):
        plain = getattr(broker.disk, name)

        def counted(path: str, *rest: Any, _plain: Any = plain, **named: Any) -> Any:
            asked.append(path)
            return _plain(path, *rest, **named)

        monkeypatch.setattr(broker.disk, name, counted)
    broker.create_topic("many", 300)
    restarted(broker, "kill")
    assert [path for path in asked if "many" in path] == []
    assert len(broker.broker.partitions.by_name["many"]) == 300


def test_a_waiting_fetch_is_answered_by_the_first_batch() -> None:
    broker, client = dialogue("t", 1)
    request = client.fetch_request(
        {"t": [wanted(0, 0)]}, FETCH_VERSION, min_bytes=1, max_wait_ms=10_000
    )
    client.transport.feed(client.frame(request, FETCH_VERSION))
    broker.settle()
    assert client.transport.take() == []
    assert folders(broker) == []
    Client(broker).produce("t", 0, batch("a"))
    (answer,) = client.answers(FetchRequest, FETCH_VERSION)
    assert values_of(only_fetched(answer)) == ["a"]


def test_folders_of_one_read_are_made_durable_together() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t", 8)
    client = Client(broker)
    disk.defer_syncs = True
    for text, syncs in (("a", 8), ("b", 0)):
        batches: dict[int, bytes | None] = {index: batch(text) for index in range(8)}
        request = client.produce_request("t", batches)
        client.transport.feed(client.frame(request, PRODUCE_VERSION))
        assert len(folders(broker)) == 8
        assert disk.deferred_count == syncs, "one for each, all under way at once; then none"
        broker.settle()
        (answer,) = client.answers(ProduceRequest, PRODUCE_VERSION)
        rows = answer.responses[0].partition_responses
        assert {row.error_code for row in rows} == {0}
    assert values_of(client.fetch("t", 7, 0)) == ["a", "b"]


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_an_end_while_folders_are_being_made_durable(end: str) -> None:
    """What was not acknowledged may be there or not; what follows is sound."""
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t", 3)
    client = Client(broker)
    disk.defer_syncs = True
    for index in range(3):
        client.transport.feed(client.produce_frame("t", index, batch("a")))
    assert client.transport.take() == []
    if end == "stop":
        broker.stop()
    else:
        getattr(broker, end)()
    disk.defer_syncs = False
    broker.start()
    client = Client(broker)
    for index in range(3):
        found = [record.value for record in client.read_all("t", index)]
        assert found in ([b"a"], []) if end == "crash" else found == [b"a"]
        assert client.produce("t", index, batch("b")).base_offset == len(found)


def test_a_topic_deleted_while_its_folders_are_being_made_durable() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    topic_id = broker.create_topic("t", 1)
    client = Client(broker)
    disk.defer_syncs = True
    client.transport.feed(client.produce_frame("t", 0, batch("a")))
    partitions = broker.broker.partitions
    assert partitions.follow(broker.broker.image, [RemoveTopicRecord(topic_id=topic_id)]) == {"t"}
    broker.settle()
    (answer,) = client.answers(ProduceRequest, PRODUCE_VERSION)
    assert only_produced(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (renamed,) = folders(broker)
    assert renamed.endswith("-delete")


def test_a_refused_batch_leaves_a_partition_that_works() -> None:
    broker, client = dialogue("t", 1)
    out_of_order = batch("a", producer=(7, 0, 5))
    assert client.produce("t", 0, batch("b" * 2_000_000)).error_code
    assert folders(broker) == [], "refused before the log was asked"
    client.produce("t", 0, out_of_order)
    assert client.produce("t", 0, batch("c")).error_code == 0


def test_an_unused_topic_is_deleted_without_a_trace() -> None:
    broker, client = dialogue("t", 50)
    client.produce("t", 7, batch("a"))
    delete_topic(client, "t")
    assert [name.partition(".")[0] for name in folders(broker)] == ["t-7"]
    assert not list(broker.broker.partitions.all())
    broker.create_topic("t", 50)
    assert client.fetch("t", 7, 0).high_watermark == 0


def test_a_configuration_changed_before_the_first_use_counts() -> None:
    broker, client = dialogue("t", 1)
    one = AlterableConfig(name="flush.messages", value="1")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[one])
    client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    client.produce("t", 0, batch("a"))
    client = restarted(broker, "crash")
    assert values_of(client.fetch("t", 0, 0)) == ["a"]


# -- disks that refuse ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["write", "sync", "open", "sync_directory"])
def test_a_disk_that_refuses_the_folder_is_told_as_such(kind: str) -> None:
    broker, client = dialogue("t", 2)
    fault = broker.disk.plan(Fault(kind, path_part="/data"))
    assert client.produce("t", 0, batch("a")).error_code == OFFLINE
    assert fault.fired_count == 1
    assert client.fetch("t", 0, 0).error_code == OFFLINE
    broker.disk.heal()
    client = restarted(broker, "kill")
    assert client.produce("t", 0, batch("b")).error_code == 0
    # Refused because it may be gone after a power cut: there was none.
    kept = ["a"] if kind.startswith("sync") else []
    assert [record.value for record in client.read_all("t", 0)] == [
        value.encode() for value in [*kept, "b"]
    ]


def test_unused_partitions_leave_a_failed_directory() -> None:
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic("t", 6)
    client = Client(broker)
    assert client.produce("t", 0, batch("a")).error_code == 0
    used = "/a" if folders(broker, path="/a") else "/b"
    broker.disk.plan(Fault("write", path_part=f"{used}/", is_sticky=True))
    assert client.produce("t", 0, batch("b")).error_code == OFFLINE
    for index in range(1, 6):
        assert client.produce("t", index, batch("c")).error_code == 0
    assert folders(broker, path=used) == ["t-0"]


def test_a_folder_left_half_made_is_not_the_successors() -> None:
    """1. The disk fails before the folder has its id; 2. the topic is deleted and made anew, in
    the other directory; 3. a restart finds both folders, the half made one first."""
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic("t", 1)
    client = Client(broker)
    broker.disk.plan(Fault("write", path_part="/t-0/partition.metadata", is_sticky=True))
    assert client.produce("t", 0, batch("never there")).error_code == OFFLINE
    broker.disk.heal()
    assert folders(broker, path="/a") == ["t-0"]
    delete_topic(client, "t")
    broker.create_topic("t", 1)
    assert client.produce("t", 0, batch("kept")).error_code == 0
    assert folders(broker, path="/b") == ["t-0"]
    for _ in range(2):
        client = restarted(broker, "kill")
        assert values_of(client.fetch("t", 0, 0)) == ["kept"]
    (stray,) = folders(broker, path="/a")
    assert stray.endswith("-stray")


# -- directories that are lost -------------------------------------------------------------------


def two_directories(topic: str = "t") -> tuple[SimulatedBroker, dict[int, str]]:
    """Six partitions, the first four used; which directory has which."""
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic(topic, 6)
    client = Client(broker)
    for index in range(4):
        assert client.produce(topic, index, batch(f"{index}")).error_code == 0
    homes = {
        index: path
        for path in ("/a", "/b")
        for index in range(4)
        if f"{topic}-{index}" in folders(broker, topic, path)
    }
    assert set(homes.values()) == {"/a", "/b"}
    return broker, homes


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_may_have_been_in_a_lost_directory_is_offline(end: str) -> None:
    """Nobody can tell the used from the unused ones there: offline is safe, empty is not. What the
    controller knows to be in the other directory was never used, and is served."""
    broker, homes = two_directories()
    here, gone = broker.broker.partitions.directory_ids
    for index in (4, 5):
        described = broker.broker.image.topics_by_name["t"].partitions[index]
        homes[index] = {here: "/a", gone: "/b"}[described.directory_of(broker.broker.node_id)]
    lost = [index for index, path in homes.items() if path == "/b"]
    assert len(lost) == 3, "half of them, the unused ones too"
    getattr(broker, end)()
    broker.disk.remove_directory("/b")
    for _ in range(3):  # it is not forgotten by a restart
        broker.start()
        client = Client(broker)
        for index, path in homes.items():
            answer = client.fetch("t", index, 0)
            assert answer.error_code == (OFFLINE if path == "/b" else 0)
            sent = client.produce("t", index, batch("x"))
            assert sent.error_code == (OFFLINE if path == "/b" else 0)
        broker.stop()
    told = [line for line in broker.events if "event=partition_missing" in line]
    assert len(told) == 3
    assert "count=3" in told[0]


def test_what_was_made_after_the_loss_is_not_lost() -> None:
    """New partitions get their folder at once while a directory is lost."""
    broker, _ = two_directories()
    broker.stop()
    broker.disk.remove_directory("/b")
    broker.start()
    broker.create_topic("new", 3)
    client = restarted(broker, "kill")
    for index in range(3):
        assert client.fetch("new", index, 0).error_code == 0
        assert client.produce("new", index, batch("x")).error_code == 0


def test_a_directory_that_comes_back_brings_its_partitions() -> None:
    broker, homes = two_directories()
    broker.stop()
    broker.disk.plan(Fault("open", path_part="/b/", is_sticky=True))
    broker.start()
    broker.stop()
    broker.disk.heal()
    broker.start()
    client = Client(broker)
    for index in homes:
        assert values_of(client.fetch("t", index, 0)) == [f"{index}"]
    assert client.produce("t", 5, batch("x")).error_code == 0


def test_a_loss_that_the_controller_has_forgotten_is_remembered_here() -> None:
    """1. A directory fails, its broker says so, and the controller takes it off the
    registration; 2. the disk is replaced by an empty one and the broker started again."""
    broker, homes = two_directories()
    broker.stop()
    broker.disk.remove_directory("/b")
    broker.start()  # registers what there is: the lost directory is in no registration any more
    registered = broker.broker.image.brokers[broker.broker.node_id]
    assert set(registered.log_dirs) == set(broker.broker.partitions.directory_ids)
    assert len(registered.log_dirs) == 2
    client = restarted(broker, "kill")
    lost = [index for index, path in homes.items() if path == "/b"]
    assert [client.fetch("t", index, 0).error_code for index in lost] == [OFFLINE] * len(lost)


def test_a_lost_directory_is_forgotten_once_nobody_misses_it() -> None:
    broker, _ = two_directories()
    broker.stop()
    broker.disk.remove_directory("/b")
    broker.start()
    delete_topic(Client(broker), "t")
    restarted(broker, "stop")
    client = restarted(broker, "stop")
    broker.create_topic("t", 2)
    made = folders(broker, path="/a") + folders(broker, path="/b")
    assert [name for name in made if not name.endswith("-delete")] == [], "as ever, at first use"
    assert client.produce("t", 0, batch("x")).error_code == 0


def test_one_directory_keeps_no_list_of_directories() -> None:
    broker, client = dialogue("t", 1)
    client.produce("t", 0, batch("a"))
    restarted(broker, "stop")
    assert "log-dirs-checkpoint" not in broker.disk.list("/data")


# -- history in pieces, and assigned directories -------------------------------------------------

TOPIC_ID = b"t" * 16
HERE, GONE, OTHER = b"a" * 16, b"b" * 16, b"c" * 16


class Followed:
    """Partitions that follow an image, without a broker around them."""

    def __init__(self) -> None:
        broker = SimulatedBroker(log_dirs="/a")
        self.partitions = broker.broker.partitions
        self.image = ClusterImage()
        self.broker = broker
        self.directory: LogDirectory = broker.node.directories[0]
        self.node_id = broker.broker.node_id
        self.partitions._has_caught_up = False

    def follow(self, *records: Any) -> None:
        for record in records:
            self.image.replay(record)
        self.partitions.follow(self.image, records)

    def registration(self, *log_dirs: bytes) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(broker_id=self.node_id, log_dirs=list(log_dirs))

    def partition(self, index: int, directory: bytes | None = None) -> PartitionRecord:
        return PartitionRecord(
            partition_id=index,
            topic_id=TOPIC_ID,
            replicas=[self.node_id],
            isr=[self.node_id],
            leader=self.node_id,
            leader_epoch=0,
            directories=[] if directory is None else [directory],
        )

    def state(self, index: int) -> str:
        if self.partitions.find("t", index) is not None:
            return "here"
        return self.partitions.missing("t", index).name


TOPIC = TopicRecord(name="t", topic_id=TOPIC_ID)


def test_a_directory_that_history_names_late_is_missed_all_the_same() -> None:
    followed = Followed()
    here = followed.directory.directory_id
    followed.follow(followed.registration(here), TOPIC, followed.partition(0))
    assert followed.state(0) == "here", "nothing was lost yet"
    followed.follow(followed.registration(here, GONE), followed.partition(1))
    assert [followed.state(index) for index in (0, 1)] == ["KAFKA_STORAGE_ERROR"] * 2
    followed.partitions.on_caught_up()
    followed.follow(followed.registration(here), followed.partition(2))
    assert followed.state(2) == "here", "new: it can't have been there"
    assert followed.directory.has_partition("t", 2), "and it has its folder at once"
    assert followed.directory.known_directories == {here, GONE}


def test_an_assigned_directory_tells_the_unused_from_the_missed() -> None:
    followed = Followed()
    here = followed.directory.directory_id
    followed.follow(
        followed.registration(here, GONE),
        TOPIC,
        followed.partition(0, here),
        followed.partition(1, GONE),
        followed.partition(2, bytes(16)),
        followed.partition(3),
    )
    missed = "KAFKA_STORAGE_ERROR"
    assert [followed.state(index) for index in range(4)] == ["here", missed, missed, missed]


def test_other_brokers_partitions_are_told_apart_from_unknown_ones() -> None:
    followed = Followed()
    elsewhere = followed.partition(0)
    elsewhere.replicas = elsewhere.isr = [77]
    elsewhere.leader = 77
    followed.follow(TOPIC, elsewhere)
    partitions = followed.partitions
    assert partitions.missing("t", 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions.missing(TOPIC_ID, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions.missing("t", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions.missing("u", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions.missing(b"u" * 16, 0) == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_commit_looks_at_what_it_changes_alone() -> None:
    followed = Followed()
    followed.follow(TOPIC, *(followed.partition(index) for index in range(500)))
    looked: list[int] = []
    plain = followed.image.topics_by_name["t"].partitions

    class Watched(list[Any]):
        def __getitem__(self, index: Any) -> Any:
            looked.append(index)
            return super().__getitem__(index)

    followed.image.topics_by_name["t"].partitions = Watched(plain)
    change = PartitionChangeRecord(partition_id=7, topic_id=TOPIC_ID, leader=followed.node_id)
    followed.follow(change)
    assert set(looked) == {7}
    partition = followed.partitions.find("t", 7)
    assert partition is not None
    assert partition.leader_epoch == 1


class Roles:
    """Whoever is told of roles."""

    def __init__(self) -> None:
        self.described: list[tuple[int, int]] = []
        self.gone: list[int] = []

    def on_described(self, partition: Any, described: Any) -> None:
        self.described.append((partition.index, described.leader_epoch))

    def on_gone(self, partition: Any) -> None:
        self.gone.append(partition.index)


def test_a_partition_that_turns_out_to_be_missed_gives_its_role_back() -> None:
    followed = Followed()
    followed.partitions.roles = roles = Roles()
    here = followed.directory.directory_id
    followed.follow(followed.registration(here), TOPIC, followed.partition(0))
    followed.follow(followed.registration(here, GONE))
    assert followed.state(0) == "KAFKA_STORAGE_ERROR"
    assert roles.gone == [0]


def test_roles_begin_when_history_ends() -> None:
    followed = Followed()
    followed.partitions.roles = roles = Roles()
    followed.partitions._has_roles = False
    followed.follow(TOPIC, followed.partition(0), followed.partition(1))
    change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=1, leader=followed.node_id)
    followed.follow(change)
    assert roles.described == []
    followed.partitions.begin_roles()
    followed.partitions.begin_roles()
    assert roles.described == [(0, 0), (1, 1)]
    followed.follow(change)
    assert roles.described[2:] == [(1, 2)]


def test_a_damaged_replica_that_moves_away_is_forgotten() -> None:
    followed = Followed()
    here = followed.directory.directory_id
    followed.follow(followed.registration(here, GONE), TOPIC, followed.partition(0))
    assert followed.state(0) == "KAFKA_STORAGE_ERROR"
    assert followed.partitions.offline_names() == ["t-0"]
    followed.follow(
        PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[77], isr=[77], leader=77)
    )
    assert followed.state(0) == "NOT_LEADER_OR_FOLLOWER"
    assert followed.partitions.offline_names() == []
