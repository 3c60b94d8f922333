"""Replicas on their way from one directory to another, through deaths and power cuts."""

import random

import pytest
from tests.unit.broker.dialogue import Client, batch, delete_records, values_of

from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
)

RATE = "replica_alter_log_dirs_io_max_bytes_per_second"


def two_directories(**flags: str) -> tuple[SimulatedBroker, Client, str, str]:
    """A broker with a topic of one partition; where that is, and where it is not."""
    broker = SimulatedBroker(log_dirs="/a,/b", **flags)
    broker.create_topic("t", 1, internal_segment_bytes="4000")
    client = Client(broker)
    assert client.produce("t", 0, batch("0")).error_code == 0
    home = "/a" if "t-0" in broker.disk.list("/a") else "/b"
    return broker, client, home, "/b" if home == "/a" else "/a"


def fill(client: Client, count: int, size: int = 500) -> list[str]:
    sent = []
    for number in range(1, count + 1):
        value = f"{number}".ljust(size, "-")
        assert client.produce("t", 0, batch(value)).error_code == 0
        sent.append(value)
    return sent


def move(client: Client, path: str, index: int = 0, topic: str = "t", version: int = 2) -> int:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    (result,) = client.ask(request, version).results
    (row,) = result.partitions
    assert (result.topic_name, row.partition_index) == (topic, index)
    return int(row.error_code)


def shown(client: Client) -> dict[str, DescribeLogDirsPartition]:
    """By directory: what DescribeLogDirs says of the partition."""
    results = client.ask(DescribeLogDirsRequest(topics=None), 4).results
    return {
        result.log_dir: partition
        for result in results
        for topic in result.topics
        if topic.name == "t"
        for partition in topic.partitions
    }


def folders(broker: SimulatedBroker, path: str) -> list[str]:
    names = [name for name in broker.disk.list(path) if name.startswith("t-")]
    return sorted(name for name in names if not name.endswith("-delete"))


def values(client: Client) -> list[str]:
    return [(record.value or b"").decode() for record in client.read_all("t", 0)]


def restarted(broker: SimulatedBroker, end: str) -> Client:
    getattr(broker, end)()
    broker.start()
    return Client(broker)


def assigned(broker: SimulatedBroker) -> bytes:
    described = broker.broker.image.topics_by_name["t"].partitions[0]
    return described.directory_of(broker.broker.node_id)


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_moves_with_all_that_it_has(version: int) -> None:
    broker, client, home, other = two_directories()
    sent = fill(client, 40)
    assert move(client, other, version=version) == 0
    broker.advance(1_000)
    assert (folders(broker, home), folders(broker, other)) == ([], ["t-0"])
    assert values(client) == ["0", *sent]
    assert client.produce("t", 0, batch("after")).base_offset == 41
    ids = dict(zip(("/a", "/b"), broker.broker.partitions.directory_ids, strict=True))
    assert assigned(broker) == ids[other], "the controller is told"
    for end in ("kill", "stop", "crash"):
        client = restarted(broker, end)
        assert values(client)[:41] == ["0", *sent]
    broker.broker.partitions.sweep()
    assert move(client, home) == 0
    broker.advance(1_000)
    assert folders(broker, home) == ["t-0"], "and back"


def test_a_move_keeps_to_its_pace_and_is_shown() -> None:
    broker, client, home, other = two_directories(**{RATE: "20000"})
    sent = fill(client, 200)
    assert move(client, other) == 0
    broker.advance(1_000)
    before = shown(client)
    assert not before[home].is_future_key
    assert before[other].is_future_key
    assert 0 < before[other].offset_lag < 201
    assert 0 < before[other].partition_size < 45_000, "20 000 bytes a second, in pieces of 16 KiB"
    assert client.produce("t", 0, batch("meanwhile")).error_code == 0
    broker.advance(10_000)
    (now,) = shown(client).items()
    assert (now[0], now[1].is_future_key, now[1].offset_lag) == (other, False, 0)
    assert values(client) == ["0", *sent, "meanwhile"]


def test_refusals() -> None:
    broker, client, _, other = two_directories()
    assert move(client, "/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert move(client, other, topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.disk.plan(Fault("write", path_part=f"{other}/", is_sticky=True))
    broker.create_topic("u", 4)
    for index in range(4):
        client.produce("u", index, batch("x"))
    assert move(client, other) == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce("t", 0, batch("x")).error_code == 0


def test_an_unused_replica_has_nothing_to_copy() -> None:
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic("t", 2)
    client = Client(broker)
    for index in range(2):
        assert move(client, "/b", index) == 0
    for index in range(2):
        client.produce("t", index, batch("x"))
    assert folders(broker, "/b") == ["t-0", "t-1"]


@pytest.mark.parametrize("end", ["kill", "stop", "crash"])
def test_a_move_is_gone_on_with_after_a_restart(end: str) -> None:
    broker, client, home, other = two_directories(**{RATE: "20000"})
    sent = fill(client, 200)
    move(client, other)
    broker.advance(2_000)
    if end == "crash":
        for log in broker.broker.partitions.made_logs():
            log.flush_now()
    assert any(name.endswith("-future") for name in folders(broker, other))
    client = restarted(broker, end)
    assert values(client) == ["0", *sent]
    broker.advance(15_000)
    assert (folders(broker, home), folders(broker, other)) == ([], ["t-0"])
    assert values(client) == ["0", *sent]


def test_a_copy_whose_topic_is_gone_goes_too() -> None:
    broker, client, _, other = two_directories(**{RATE: "20000"})
    fill(client, 200)
    move(client, other)
    broker.advance(1_000)
    client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 4)
    broker.advance(2_000)
    broker.broker.partitions.sweep()
    assert folders(broker, other) == []


def test_a_move_is_turned_to_where_the_replica_is() -> None:
    broker, client, home, other = two_directories(**{RATE: "20000"})
    sent = fill(client, 200)
    move(client, other)
    broker.advance(1_000)
    assert move(client, home) == 0
    assert list(shown(client)) == [home]
    broker.advance(15_000)
    assert (folders(broker, home), folders(broker, other)) == (["t-0"], [])
    assert values(client) == ["0", *sent]


def test_deleted_records_and_a_producers_sequence_come_along() -> None:
    broker, client, home, other = two_directories()
    fill(client, 10)
    last = batch("once", producer=(7, 0, 0))
    assert client.produce("t", 0, last).base_offset == 11
    delete_records(client, "t", 0, 5)
    move(client, other)
    broker.advance(1_000)
    assert folders(broker, other) == ["t-0"]
    assert client.produce("t", 0, last).base_offset == 11, "known to be there already"
    for end in ("kill", "stop"):
        assert client.fetch("t", 0, 5).log_start_offset == 5
        assert client.fetch("t", 0, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert client.produce("t", 0, last).base_offset == 11
        client = restarted(broker, end)
    assert folders(broker, home) == []


def test_a_death_between_the_two_renames_leaves_one_whole_replica() -> None:
    broker, client, home, other = two_directories()
    sent = fill(client, 20)
    broker.disk.plan(Fault("rename", path_part=f"{home}/t-0"))
    move(client, other)
    broker.advance(1_000)
    assert (folders(broker, home), folders(broker, other)) == (["t-0"], ["t-0"]), "void otherwise"
    broker.disk.heal()
    client = restarted(broker, "kill")
    assert values(client) == ["0", *sent]
    kept = [path for path in (home, other) if "t-0" in folders(broker, path)]
    assert len(kept) == 1


def test_the_target_fails_and_the_replica_stays() -> None:
    broker, client, home, other = two_directories(**{RATE: "20000"})
    sent = fill(client, 200)
    move(client, other)
    broker.disk.plan(Fault("write", path_part=f"{other}/t-0", is_sticky=True))
    broker.advance(2_000)
    assert broker.broker.partitions.offline_paths() == [other]
    assert values(client) == ["0", *sent]
    assert client.produce("t", 0, batch("x")).error_code == 0
    assert list(shown(client)) == [home]


@pytest.mark.parametrize("seed", range(40))
def test_nothing_synced_is_lost_by_a_power_cut_at_any_moment(seed: int) -> None:
    """Every record is synced before it is acknowledged; the power fails somewhere in the move."""
    chance = random.Random(seed)
    broker = SimulatedBroker(seed=seed, log_dirs="/a,/b", **{RATE: "60000"})
    broker.create_topic("t", 1, internal_segment_bytes="4000", flush_messages="1")
    client = Client(broker)
    sent = fill(client, 60)
    home = "/a" if "t-0" in broker.disk.list("/a") else "/b"
    move(client, "/b" if home == "/a" else "/a")
    for _ in range(3):
        for number in range(chance.randrange(12)):
            broker.timers.advance(chance.randrange(200))
            broker.disk.complete_syncs()
            value = f"{len(sent)}-{number}".ljust(400, "-")
            if client.produce("t", 0, batch(value)).error_code == 0:
                sent.append(value)
        client = restarted(broker, chance.choice(["crash", "kill"]))
        assert values(client) == sent
    broker.advance(5_000)
    assert values(client) == sent
    held = [path for path in ("/a", "/b") if folders(broker, path) == ["t-0"]]
    assert len(held) == 1
    assert values_of(client.fetch("t", 0, 0))[:1] == sent[:1]
