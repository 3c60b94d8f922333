"""A disk without room: records are refused, everything else goes on, and it heals by itself."""

import errno

import pytest
from tests.unit.broker.dialogue import Client, batch, values_of

from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR


def no_room(broker: SimulatedBroker, path_part: str, kind: str = "write") -> None:
    broker.disk.plan(Fault(kind, code=errno.ENOSPC, path_part=path_part, is_sticky=True))


def room(broker: SimulatedBroker) -> None:
    broker.disk.heal()
    broker.broker.partitions.look_for_room()


def started(**configs: str) -> tuple[SimulatedBroker, Client]:
    broker = SimulatedBroker()
    broker.create_topic("t", 1, **configs)
    client = Client(broker)
    assert client.produce("t", 0, batch("a")).base_offset == 0
    return broker, client


def test_records_are_refused_and_read_until_there_is_room() -> None:
    broker, client = started()
    no_room(broker, "/data/t-0")
    for _ in range(3):
        answer = client.produce("t", 0, batch("b"))
        assert (answer.error_code, answer.base_offset) == (REFUSED, -1)
        assert values_of(client.fetch("t", 0, 0)) == ["a"]
    assert "full" in (answer.error_message or "")
    assert broker.broker.partitions.full_paths() == ["/data"]
    assert broker.broker.partitions.offline_paths() == []
    assert sum("log_dir_full" in line for line in broker.events) == 1
    room(broker)
    assert client.produce("t", 0, batch("c")).base_offset == 1
    assert values_of(client.fetch("t", 0, 0)) == ["a", "c"]
    broker.kill()
    broker.start()
    assert values_of(Client(broker).fetch("t", 0, 0)) == ["a", "c"]


def test_the_other_directory_takes_records() -> None:
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic("t", 2)
    client = Client(broker)
    homes = {}
    for index in range(2):
        client.produce("t", index, batch("x"))
        homes["/a" if f"t-{index}" in broker.disk.list("/a") else "/b"] = index
    no_room(broker, "/b/")
    assert client.produce("t", homes["/b"], batch("y")).error_code == REFUSED
    assert client.produce("t", homes["/a"], batch("y")).error_code == 0
    assert client.fetch("t", homes["/b"], 0).error_code == 0


@pytest.mark.parametrize("is_rolled", [False, True])
def test_a_refused_batch_was_never_there_for_its_producer(is_rolled: bool) -> None:
    """The same batch, sent again when there is room, is new; sent once more, it is known."""
    broker, client = started(**({"internal_segment_bytes": "200"} if is_rolled else {}))
    assert client.produce("t", 0, batch("b", producer=(7, 0, 0))).base_offset == 1
    no_room(broker, "/data/t-0", "open" if is_rolled else "write")
    refused = batch("c" * 150, producer=(7, 0, 1))
    assert client.produce("t", 0, refused).error_code == REFUSED
    room(broker)
    assert client.produce("t", 0, refused).base_offset == 2
    assert client.produce("t", 0, refused).base_offset == 2
    assert client.produce("t", 0, batch("d", producer=(7, 0, 2))).base_offset == 3
    assert client.fetch("t", 0, 0).high_watermark == 4


def test_several_requests_of_one_read_are_refused_together() -> None:
    """None of them is acknowledged because a later one took its offset."""
    broker, client = started()
    no_room(broker, "/data/t-0")
    frames = [client.produce_frame("t", 0, batch(f"{n}", producer=(7, 0, n))) for n in range(3)]
    client.transport.feed(b"".join(frames))
    broker.settle()
    assert len(client.transport.take()) == 3
    room(broker)
    for number in range(3):
        answer = client.produce("t", 0, batch(f"{number}", producer=(7, 0, number)))
        assert (answer.error_code, answer.base_offset) == (0, 1 + number)
    assert [(r.value or b"").decode() for r in client.read_all("t", 0)] == ["a", "0", "1", "2"]


def test_a_new_partition_waits_for_room() -> None:
    broker, client = started()
    no_room(broker, "/data/u-0")
    broker.create_topic("u", 1)
    assert client.produce("u", 0, batch("x")).error_code == REFUSED
    room(broker)
    assert client.produce("u", 0, batch("x")).base_offset == 0
    broker.kill()
    broker.start()
    assert values_of(Client(broker).fetch("u", 0, 0)) == ["x"]


def test_upkeep_and_deletions_go_on_without_room() -> None:
    broker, client = started(retention_bytes="1", internal_segment_bytes="200")
    for number in range(5):
        client.produce("t", 0, batch(f"{number}" * 100))
    for part in ("/data/t-0", "offset-checkpoint"):
        no_room(broker, part)
    partitions = broker.broker.partitions
    for work in (partitions.flush_due, partitions.checkpoint, partitions.retain, partitions.sweep):
        work()
        broker.settle()
    assert client.fetch("t", 0, 5).error_code == 0
    assert client.fetch("t", 0, 5).log_start_offset > 0, "retention makes room"
    assert partitions.full_paths() == ["/data"]
    client.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 4)
    room(broker)
    broker.create_topic("t", 1)
    assert client.produce("t", 0, batch("new")).base_offset == 0


def test_the_metadata_waits_for_room() -> None:
    broker, client = started()
    no_room(broker, "/data/__cluster_metadata")
    topic = CreatableTopic(name="late", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    client.transport.feed(client.frame(request, 7))
    broker.settle()
    assert client.transport.take() == []
    other = Client(broker)
    assert other.produce("t", 0, batch("b")).error_code == 0, "brokers do without the controller"
    broker.disk.heal()
    broker.advance(1_000)
    (answer,) = client.transport.take()
    assert client.read(answer, CreateTopicsRequest, 7).topics[0].error_code == 0
    assert other.produce("late", 0, batch("x")).base_offset == 0
    assert broker.failures == []
    broker.kill()
    broker.start()
    assert values_of(Client(broker).fetch("late", 0, 0)) == ["x"]


def epochs_on_disk(broker: SimulatedBroker) -> list[str]:
    return broker.disk.read_file("/data/t-0/leader-epoch-checkpoint").decode().split("\n")[2:-1]


def test_no_record_of_an_epoch_is_written_before_the_epoch_has_room() -> None:
    broker, client = started()
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    epoch = partition.leader_epoch
    partition.leader_epoch += 1
    no_room(broker, "leader-epoch-checkpoint")
    for _ in range(2):
        assert client.produce("t", 0, batch("b")).error_code == REFUSED
        broker.broker.partitions.look_for_room()
    assert epochs_on_disk(broker) == [f"{epoch} 0"]
    room(broker)
    assert client.produce("t", 0, batch("b")).base_offset == 1
    assert epochs_on_disk(broker) == [f"{epoch} 0", f"{epoch + 1} 1"]


def test_an_epoch_that_found_no_room_begins_later() -> None:
    broker, _ = started()
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    begun: list[bool] = []
    no_room(broker, "leader-epoch-checkpoint")
    partition.begin_epoch(7, lambda: begun.append(True))
    broker.settle()
    assert begun == []
    broker.broker.partitions.look_for_room()
    broker.settle()
    assert begun == [], "there is still none"
    room(broker)
    broker.settle()
    assert begun == [True]
    assert epochs_on_disk(broker)[-1] == "7 1"


def test_a_little_is_kept_in_reserve() -> None:
    broker, client = started()
    broker.disk.capacity_bytes = 1 << 20
    broker.broker.partitions.look_for_room()
    assert client.produce("t", 0, batch("b")).error_code == REFUSED
    broker.disk.capacity_bytes = 1 << 30
    broker.broker.partitions.look_for_room()
    assert client.produce("t", 0, batch("b")).base_offset == 1
