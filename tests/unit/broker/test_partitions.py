"""Partitions follow the metadata, live in directories, and fail alone."""

import errno

import pytest
from tests.unit.broker.dialogue import NOW_MS, Client, batch, dialogue, values_of

from headrace.base.errors import StorageError
from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest
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

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR
MINUTE_MS = 60_000


def alter(client: Client, kind: int, name: str, key: str, value: str | None) -> None:
    config = AlterableConfig(name=key, config_operation=DELETE if value is None else SET)
    config.value = value
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    response = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == 0, response.responses[0].error_message


def delete_topic(client: Client, name: str) -> None:
    response = client.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)
    assert response.responses[0].error_code == 0


def restarted(broker: SimulatedBroker, end: str = "stop") -> Client:
    getattr(broker, end)()
    broker.start()
    return Client(broker)


def folder_of(broker: SimulatedBroker, partition: str) -> str:
    (found,) = {path.rpartition("/")[0] for path in broker.disk.tree() if f"/{partition}/" in path}
    return found


def segments_of(broker: SimulatedBroker, partition: str) -> list[str]:
    folder = folder_of(broker, partition)
    return [name for name in broker.disk.list(folder) if name.endswith(".log")]


# -- following the metadata --------------------------------------------------------------------


def test_added_partitions_serve_at_once() -> None:
    broker, client = dialogue("t", 1)
    assert client.produce("t", 1, batch("a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)]
    )
    assert client.ask(more, 3).results[0].error_code == 0
    for index in range(3):
        assert client.produce("t", index, batch("a")).base_offset == 0
    client = restarted(broker, "kill")
    for index in range(3):
        assert values_of(client.fetch("t", index, 0)) == ["a"]


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    broker, client = dialogue("t", 2, file_delete_delay_ms="1000")
    for index in range(2):
        client.produce("t", index, batch("a"))
    delete_topic(client, "t")
    names = broker.disk.list("/data")
    assert "t-0" not in names
    assert len([name for name in names if name.endswith("-delete")]) == 2
    assert not list(broker.broker.partitions.all())
    broker.broker.partitions.sweep()
    assert len([n for n in broker.disk.list("/data") if n.endswith("-delete")]) == 2
    broker.advance(1000)
    broker.broker.partitions.sweep()
    assert not [name for name in broker.disk.list("/data") if name.startswith("t-")]


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_a_deletion_is_finished_after_a_restart(end: str) -> None:
    broker, client = dialogue("t", 1)
    client.produce("t", 0, batch("a"))
    delete_topic(client, "t")
    client = restarted(broker, end)
    broker.broker.partitions.sweep()
    assert not [name for name in broker.disk.list("/data") if name.startswith("t-")]
    assert client.produce("t", 0, batch("a")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_a_topic_made_anew_knows_nothing_of_the_old(end: str) -> None:
    broker, client = dialogue("t", 1)
    sent = batch("old", producer=(1, 0, 0))
    client.produce("t", 0, sent)
    delete_topic(client, "t")
    broker.create_topic("t")
    assert client.produce("t", 0, sent).base_offset == 0
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    partition.log.flush_now()
    client = restarted(broker, end)
    assert values_of(client.fetch("t", 0, 0)) == ["old"]
    assert client.fetch("t", 0, 0).high_watermark == 1


def test_a_folder_of_another_topic_of_that_name_is_set_aside() -> None:
    broker, client = dialogue("t", 1)
    client.produce("t", 0, batch("of the old topic"))
    broker.disk.plan(Fault("rename", path_part="/data/t-0"))
    delete_topic(client, "t")  # the metadata says so, the disk could not
    broker.disk.heal()
    client = restarted(broker, "kill")
    broker.create_topic("t")
    assert client.fetch("t", 0, 0).high_watermark == 0
    strays = [name for name in broker.disk.list("/data") if name.endswith("-stray")]
    assert len(strays) == 1
    kept = broker.disk.read_file(f"/data/{strays[0]}/00000000000000000000.log")
    assert b"of the old topic" in kept


def test_offsets_of_a_deleted_partition_are_not_the_new_ones() -> None:
    """1. A log is synced far; 2. its directory fails, its topic is deleted; 3. after a restart the
    topic is made anew; 4. the process dies before the next checkpoint: the new log is short."""
    broker, client = dialogue("t", 1)
    for n in range(9):
        client.produce("t", 0, batch(f"{n}"))
    client = restarted(broker, "stop")
    broker.disk.plan(Fault("rename", path_part="/data/t-0"))
    delete_topic(client, "t")
    broker.disk.heal()
    client = restarted(broker, "kill")
    broker.create_topic("t")
    client.produce("t", 0, batch("new"))
    client = restarted(broker, "kill")
    assert values_of(client.fetch("t", 0, 0)) == ["new"]


def test_data_of_a_deleted_topic_is_never_the_new_ones() -> None:
    """1. A topic's data is synced, its id is not; 2. it is deleted, the disk refuses the rename,
    the power fails and the id is lost; 3. the topic is made anew and finds a folder of its name."""
    for seed in range(10):
        broker, client = dialogue("t", 1, flags={"seed": seed}, flush_messages="1")
        client.produce("t", 0, batch("of the old topic"))
        broker.disk.plan(Fault("rename", path_part="/data/t-0"))
        delete_topic(client, "t")
        broker.disk.heal()
        client = restarted(broker, "crash")
        broker.create_topic("t")
        assert client.read_all("t", 0) == []


# -- configurations ----------------------------------------------------------------------------


def test_retention_takes_effect_when_it_changes() -> None:
    broker, client = dialogue("t", 1, internal_segment_bytes="400")
    for n in range(10):
        client.produce("t", 0, batch(f"{n}" * 100, timestamp_ms=NOW_MS))
    broker.broker.partitions.retain()
    assert client.fetch("t", 0, 0).log_start_offset == 0
    broker.advance(2 * MINUTE_MS)
    broker.broker.partitions.retain()
    assert client.fetch("t", 0, 0).log_start_offset == 0
    alter(client, TOPIC, "t", "retention.ms", str(MINUTE_MS))
    broker.broker.partitions.retain()
    assert client.fetch("t", 0, 10).log_start_offset == 10
    assert client.produce("t", 0, batch("next")).base_offset == 10


def test_retention_by_bytes_keeps_whole_segments() -> None:
    broker, client = dialogue("t", 1, internal_segment_bytes="400")
    size = len(batch("0" * 100))
    for n in range(10):
        client.produce("t", 0, batch(f"{n}" * 100))
    before = len(segments_of(broker, "t-0"))
    alter(client, TOPIC, "t", "retention.bytes", str(4 * size))
    broker.broker.partitions.retain()
    start = client.fetch("t", 0, 9).log_start_offset
    assert 0 < start <= 6
    assert len(segments_of(broker, "t-0")) < before
    alter(client, TOPIC, "t", "retention.bytes", None)
    broker.broker.partitions.retain()
    assert client.fetch("t", 0, 9).log_start_offset == start


def test_segment_size_takes_effect_when_it_changes() -> None:
    broker, client = dialogue("t", 1)
    client.produce("t", 0, batch("a" * 600_000))
    client.produce("t", 0, batch("b" * 600_000))
    assert len(segments_of(broker, "t-0")) == 1
    alter(client, TOPIC, "t", "segment.bytes", "1048576")
    client.produce("t", 0, batch("c"))
    assert len(segments_of(broker, "t-0")) == 2
    assert [(r.value or b"")[:1] for r in client.read_all("t", 0)] == [b"a", b"b", b"c"]


def test_limits_and_times_take_effect_under_a_known_shape() -> None:
    broker, client = dialogue("t", 1)
    sent = batch("a" * 500)
    for _ in range(2):
        assert client.produce("t", 0, sent).log_append_time_ms == -1
    alter(client, TOPIC, "t", "max.message.bytes", "400")
    assert client.produce("t", 0, sent).error_code == ErrorCode.MESSAGE_TOO_LARGE
    alter(client, TOPIC, "t", "max.message.bytes", None)
    alter(client, TOPIC, "t", "message.timestamp.type", "LogAppendTime")
    assert client.produce("t", 0, sent).log_append_time_ms == NOW_MS
    alter(client, TOPIC, "t", "compression.type", "gzip")
    assert client.produce("t", 0, sent).error_code == 0
    assert len(client.fetch("t", 0, 3).records or b"") < 300
    client = restarted(broker, "crash")
    answer = client.produce("t", 0, sent)
    assert answer.log_append_time_ms == NOW_MS


def test_a_default_of_the_broker_changes_topics_without_their_own() -> None:
    broker, client = dialogue("t", 1)
    broker.create_topic("own", max_message_bytes="5000")
    alter(client, BROKER, "", "message.max.bytes", "400")
    sent = batch("a" * 500)
    assert client.produce("t", 0, sent).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce("own", 0, sent).error_code == 0
    client = restarted(broker, "crash")
    assert client.produce("t", 0, sent).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_flush_messages_takes_effect_when_it_changes() -> None:
    broker, client = dialogue("t", 1)
    client.produce("t", 0, batch("a"))
    alter(client, TOPIC, "t", "flush.messages", "1")
    for n in range(5):
        client.produce("t", 0, batch(f"{n}"))
    client = restarted(broker, "crash")
    assert client.fetch("t", 0, 0).high_watermark == 6


def test_flush_ms_is_kept_by_the_upkeep() -> None:
    broker, client = dialogue("t", 1, flush_ms="1000")
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    client.produce("t", 0, batch("a"))
    broker.broker.partitions.flush_due()
    assert partition.log.recovery_point == 0
    broker.advance(1000)
    broker.broker.partitions.flush_due()
    assert partition.log.recovery_point == 1


# -- directories -------------------------------------------------------------------------------


def two_directories() -> tuple[SimulatedBroker, Client, dict[str, list[int]]]:
    """Four partitions of `t` with one record each, and which directory has which."""
    broker = SimulatedBroker(log_dirs="/a,/b")
    broker.create_topic("t", 4)
    client = Client(broker)
    for index in range(4):
        client.produce("t", index, batch(f"{index}"))
    homes: dict[str, list[int]] = {"/a": [], "/b": []}
    for index in range(4):
        homes[folder_of(broker, f"t-{index}").rpartition("/")[0]].append(index)
    return broker, client, homes


def test_partitions_are_spread_evenly() -> None:
    _, _, homes = two_directories()
    assert [len(indexes) for indexes in homes.values()] == [2, 2]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_a_directory_that_fails_takes_its_own_partitions_alone(code: int) -> None:
    broker, client, homes = two_directories()
    broker.disk.plan(Fault("write", code=code, path_part="/b/t-", is_sticky=True))
    assert client.produce("t", homes["/b"][0], batch("x")).error_code == OFFLINE
    for index in homes["/b"]:
        assert client.produce("t", index, batch("x")).error_code == OFFLINE
        assert client.fetch("t", index, 0).error_code == OFFLINE
    for index in homes["/a"]:
        assert client.produce("t", index, batch("x")).base_offset == 1
        assert values_of(client.fetch("t", index, 0)) == [f"{index}", "x"]
    partitions = broker.broker.partitions
    assert partitions.offline_paths() == ["/b"]
    assert sorted(partitions.offline_names()) == sorted(f"t-{i}" for i in homes["/b"])
    assert partitions.storage_error_count >= 1
    assert any("storage_failed" in line and "/b" in line for line in broker.events)


def test_new_partitions_go_where_there_is_service() -> None:
    broker, client, homes = two_directories()
    broker.disk.plan(Fault("write", path_part="/b/", is_sticky=True))
    client.produce("t", homes["/b"][0], batch("x"))
    broker.create_topic("u", 3)
    for index in range(3):
        assert client.produce("u", index, batch("x")).error_code == 0
        assert folder_of(broker, f"u-{index}").startswith("/a/")


def test_upkeep_and_a_clean_stop_go_on_without_the_failed_one() -> None:
    broker, client, homes = two_directories()
    broker.disk.plan(Fault("write", path_part="/b/", is_sticky=True))
    client.produce("t", homes["/b"][0], batch("x"))
    partitions = broker.broker.partitions
    for work in (partitions.flush_due, partitions.retain, partitions.sweep, partitions.checkpoint):
        work()
    client = restarted(broker)
    assert broker.node.directories[0].was_clean
    assert not broker.node.directories[1].was_clean
    broker.disk.heal()
    client = restarted(broker)
    for index in range(4):
        assert values_of(client.fetch("t", index, 0)) == [f"{index}"]


def test_a_directory_that_can_not_be_opened_keeps_its_partitions_to_itself() -> None:
    """They are offline, not made anew, empty, in the directory that works."""
    broker, client, homes = two_directories()
    broker.stop()
    broker.disk.plan(Fault("open", path_part="/b/", is_sticky=True))
    broker.start()
    client = Client(broker)
    for index in homes["/b"]:
        assert client.fetch("t", index, 0).error_code == OFFLINE
        assert client.produce("t", index, batch("x")).error_code == OFFLINE
    for index in homes["/a"]:
        assert values_of(client.fetch("t", index, 0)) == [f"{index}"]
    broker.disk.heal()
    client = restarted(broker)
    for index in range(4):
        assert values_of(client.fetch("t", index, 0)) == [f"{index}"]


def test_one_directory_that_refuses_to_close_does_not_keep_the_others_from_it() -> None:
    broker, _, homes = two_directories()
    assert homes["/a"]
    broker.broker.prepare_stop()
    broker.settle()
    broker.disk.plan(Fault("write", path_part="/a/", is_sticky=True))
    with pytest.raises(StorageError):
        broker.node.close()
    broker.disk.heal()
    broker.kill()
    broker.start()
    assert not broker.node.directories[0].was_clean
    assert broker.node.directories[1].was_clean
    client = Client(broker)
    for index in range(4):
        assert values_of(client.fetch("t", index, 0)) == [f"{index}"]


# -- damage ------------------------------------------------------------------------------------


@pytest.fixture
def damaged() -> SimulatedBroker:
    """Three partitions; the synced bytes of the second have rotted."""
    broker, client = dialogue("t", 3)
    for index in range(3):
        for n in range(5):
            client.produce("t", index, batch(f"{n}"))
        partition = broker.broker.partitions.find("t", index)
        assert partition is not None
        partition.log.flush_now()
    broker.broker.partitions.checkpoint()
    broker.kill()
    path = "/data/t-1/00000000000000000000.log"
    content = bytearray(broker.disk.read_file(path))
    content[100] ^= 0xFF
    broker.disk.overwrite(path, bytes(content))
    broker.start()
    return broker


def test_a_damaged_partition_is_offline_alone(damaged: SimulatedBroker) -> None:
    client = Client(damaged)
    assert client.produce("t", 1, batch("x")).error_code == OFFLINE
    assert client.fetch("t", 1, 0).error_code == OFFLINE
    assert client.fetch("t", 1, 0, version=13).error_code == OFFLINE
    assert client.produce("t", 1, batch("x"), version=13).error_code == OFFLINE
    for index in (0, 2):
        assert len(client.read_all("t", index)) == 5
        assert client.produce("t", index, batch("x")).base_offset == 5
    assert damaged.broker.partitions.offline_names() == ["t-1"]
    assert damaged.broker.partitions.offline_paths() == []
    assert any("t-1" in line and "corrupt at byte" in line for line in damaged.events)


def test_a_damaged_partition_stays_so_over_restarts(damaged: SimulatedBroker) -> None:
    for end in ("stop", "kill", "stop"):
        client = restarted(damaged, end)
        assert client.fetch("t", 1, 0).error_code == OFFLINE
        assert len(client.read_all("t", 0)) == 5


def test_a_damaged_topic_can_be_deleted_and_made_anew(damaged: SimulatedBroker) -> None:
    client = Client(damaged)
    delete_topic(client, "t")
    assert damaged.broker.partitions.offline_names() == []
    assert client.fetch("t", 1, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    damaged.create_topic("t", 3)
    for index in range(3):
        assert client.produce("t", index, batch("new")).base_offset == 0
    client = restarted(damaged, "kill")
    assert values_of(client.fetch("t", 1, 0)) == ["new"]


def test_configurations_still_change_beside_damage(damaged: SimulatedBroker) -> None:
    client = Client(damaged)
    alter(client, TOPIC, "t", "retention.ms", "1000")
    assert client.fetch("t", 1, 0).error_code == OFFLINE
    assert len(client.read_all("t", 0)) == 5


def test_damage_found_while_serving_is_told_with_its_place() -> None:
    broker, client = dialogue("t", 2)
    for index in range(2):
        client.produce("t", index, batch("a", "b"))
    path = "/data/t-0/00000000000000000000.log"
    rotten = bytearray(broker.disk.read_file(path))
    rotten[-1] ^= 1
    broker.disk.overwrite(path, bytes(rotten))
    one = ListOffsetsPartition(partition_index=0, timestamp=NOW_MS)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[one])])
    assert client.ask(request, 7).topics[0].partitions[0].error_code == OFFLINE
    (line,) = [line for line in broker.events if "storage_failed" in line]
    assert "what=t-0" in line
    assert path in line
    assert client.produce("t", 1, batch("c")).error_code == 0


# -- stopping ----------------------------------------------------------------------------------


def test_a_clean_stop_needs_no_scan_and_no_new_epoch() -> None:
    disk = SimulatedDisk()
    broker = SimulatedBroker(disk=disk)
    broker.create_topic("t", 3)
    client = Client(broker)
    for index in range(3):
        client.produce("t", index, batch("a"))
    client = restarted(broker)
    for index in range(3):
        partition = broker.broker.partitions.find("t", index)
        assert partition is not None
        assert partition.log.recovered.scanned_bytes == 0
        assert (partition.leader_epoch, partition.high_watermark) == (0, 1)
    client = restarted(broker, "kill")
    assert client.produce("t", 0, batch("b")).base_offset == 1


def test_checkpoints_say_where_logs_are() -> None:
    broker, client = dialogue("t", 2)
    for _ in range(3):
        client.produce("t", 1, batch("a"))
    broker.broker.partitions.checkpoint()
    text = broker.disk.read_file("/data/replication-offset-checkpoint").decode()
    assert text.splitlines()[0] == "0"
    assert "t 1 3" in text.splitlines()
    assert not [line for line in text.splitlines() if line.startswith("t 0 ")], "never used"


# -- directories that are gone -------------------------------------------------------------------


def test_an_emptied_directory_does_not_bring_its_partitions_back_empty() -> None:
    """A disk that was not mounted: what it held is offline, the rest serves, new topics too."""
    broker, client = dialogue("t", 4, flags={"log_dirs": "/a,/b"})
    for index in range(4):
        client.produce("t", index, batch(f"{index}"))
    folders = {index: folder_of(broker, f"t-{index}") for index in range(4)}
    broker.stop()
    broker.disk.remove_directory("/b")
    for _ in range(2):  # the loss is not forgotten by a restart
        broker.start()
        client = Client(broker)
        for index, folder in folders.items():
            answer = client.fetch("t", index, 0)
            if folder.startswith("/b/"):
                assert answer.error_code == OFFLINE
                assert client.produce("t", index, batch("x")).error_code == OFFLINE
            else:
                assert values_of(answer) == [f"{index}"]
        assert any("event=partition_missing" in line for line in broker.events)
        broker.stop()
    broker.start()
    client = Client(broker)
    broker.create_topic("new", 2)
    assert client.produce("new", 1, batch("y")).error_code == 0
    delete_topic(client, "t")
    broker.create_topic("t", 4)
    assert [client.produce("t", index, batch("z")).base_offset for index in range(4)] == [0] * 4


def test_a_clean_start_of_many_partitions_scans_nothing_and_keeps_no_file_open() -> None:
    broker, client = dialogue("t", 200)
    for index in range(0, 200, 10):
        client.produce("t", index, batch("a", "b"))
    client = restarted(broker, "stop")
    assert len(list(broker.broker.partitions.all())) == 200
    logs = list(broker.node.directories[0].logs.values())
    assert len(logs) == 20
    assert sum(log.recovered.scanned_bytes for log in logs) == 0
    assert logs[0].files.open_count == 1, "the metadata log alone"
    assert values_of(client.fetch("t", 10, 0)) == ["a", "b"]
    assert logs[0].files.open_count == 2
