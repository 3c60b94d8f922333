import random
from typing import Any

import pytest

from headrace.base.errors import CorruptionError, StorageError, UsageError
from headrace.log import checkpoints
from headrace.log.config import LogConfig
from headrace.log.directory import LogDirectory
from headrace.log.file_budget import FileBudget
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.records import build_batch

IDS = [bytes([n]) * 8 + random.Random(n).randbytes(8) for n in range(5)]
CONFIG = LogConfig(segment_bytes=300, file_delete_delay_ms=60_000)


class Home:
    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock()
        self.rng = random.Random(1)

    def open(self, *, cluster_id: str | None = None, node_id: int = 1) -> LogDirectory:
        self.directory = LogDirectory.open(
            self.disk,
            "/data",
            self.clock,
            FileBudget(self.disk),
            cluster_id=cluster_id,
            node_id=node_id,
            random=self.rng,
        )
        return self.directory

    def partition(self, topic: str = "t", index: int = 0, topic_id: bytes = IDS[0]) -> Any:
        return self.directory.open_partition(topic, index, topic_id, CONFIG)


@pytest.fixture
def home() -> Home:
    return Home()


def append(log: Any, count: int = 1) -> None:
    for _ in range(count):
        log.append(build_batch([(b"k", b"v" * 30, [], 5)]), 0, 0)


def test_a_new_directory_is_formatted_and_known_again(home: Home) -> None:
    first = home.open()
    assert not first.was_clean
    assert any(first.directory_id)
    home.disk.kill()
    again = home.open(cluster_id=first.cluster_id)
    assert again.directory_id == first.directory_id
    assert again.cluster_id == first.cluster_id


def test_a_stranger_is_sent_away(home: Home) -> None:
    home.open(cluster_id="ours")
    home.disk.kill()
    with pytest.raises(UsageError, match="belongs to cluster ours, not to theirs"):
        home.open(cluster_id="theirs")
    home.disk.kill()
    with pytest.raises(UsageError, match="belongs to node 1, not to node 2"):
        home.open(node_id=2)


def test_two_may_not_use_it_at_once(home: Home) -> None:
    home.open()
    with pytest.raises(UsageError, match="/data is in use by another process"):
        home.open()


def test_a_clean_stop_is_marked_and_the_mark_taken_at_once(home: Home) -> None:
    """KAFKA-10471: a crash while loading must not look like a clean stop."""
    home.open()
    append(home.partition(), 9)
    home.directory.close(broker_epoch=12)
    assert home.disk.exists("/data/.kafka_cleanshutdown")
    home.disk.kill()
    directory = home.open()
    assert (directory.was_clean, directory.last_broker_epoch) == (True, 12)
    assert not home.disk.exists("/data/.kafka_cleanshutdown")
    assert home.partition().recovered.scanned_bytes == 0
    home.disk.crash(home.rng)
    assert not home.open().was_clean
    log = home.partition()
    assert log.recovered.scanned_bytes == log.segments[-1].size, "the recovery point is kept"
    assert log.log_end_offset == 9


def test_checkpoints_hold_every_partition(home: Home) -> None:
    home.open()
    first, second = home.partition(), home.partition("u", 3, IDS[1])
    append(first, 9)
    append(second, 2)
    first.flush_now()
    first.delete_records(4)
    home.directory.checkpoint({("t", 0): 9, ("u", 3): 1})
    read = {
        name: checkpoints.read_offsets(home.disk, f"/data/{name}")
        for name in (
            "recovery-point-offset-checkpoint",
            "log-start-offset-checkpoint",
            "replication-offset-checkpoint",
        )
    }
    assert read == {
        "recovery-point-offset-checkpoint": {("t", 0): 9, ("u", 3): 0},
        "log-start-offset-checkpoint": {("t", 0): 4},
        "replication-offset-checkpoint": {("t", 0): 9, ("u", 3): 1},
    }
    home.disk.kill()
    home.open()
    home.partition()
    # The other one is not open yet; its numbers stay.
    home.directory.checkpoint({})
    assert home.directory.high_watermarks == {("t", 0): 9, ("u", 3): 1}
    assert home.directory.logs["t", 0].log_start_offset == 4


def test_a_deleted_partition_is_set_aside_and_removed_later(home: Home) -> None:
    home.open()
    log = home.partition()
    append(log, 3)
    log.flush_now()
    home.directory.checkpoint({("t", 0): 3})
    home.directory.delete_partition(log)
    (name,) = [name for name in home.disk.list("/data") if name.endswith("-delete")]
    assert name.startswith("t-0.")
    assert not home.directory.has_partition("t", 0)
    with pytest.raises(StorageError):
        append(log)
    new = home.partition(topic_id=IDS[2])
    assert (new.log_end_offset, new.recovery_point) == (0, 0)
    assert home.directory.sweep(home.clock.now_ms() + 59_999) == 0
    assert home.directory.sweep(home.clock.now_ms() + 60_000) == 1
    assert not home.disk.exists(f"/data/{name}")


def test_a_deletion_is_completed_after_a_restart(home: Home) -> None:
    home.open()
    home.directory.delete_partition(home.partition("a" * 249))
    home.disk.kill()
    home.open()
    assert home.directory.sweep(home.clock.now_ms()) == 1
    assert not [name for name in home.disk.list("/data") if name.endswith("-delete")]


def test_the_folder_of_a_topic_that_is_gone_is_kept_aside(home: Home) -> None:
    home.open()
    append(home.partition(topic_id=IDS[0]), 3)
    home.disk.kill()
    home.open()
    assert home.partition(topic_id=IDS[1]).log_end_offset == 0
    (stray,) = [name for name in home.disk.list("/data") if name.endswith("-stray")]
    assert home.disk.size(f"/data/{stray}/00000000000000000000.log") > 0


def test_a_damaged_partition_is_offline_alone(home: Home) -> None:
    home.open()
    append(home.partition(), 5)
    home.disk.kill()
    path = "/data/t-0/00000000000000000000.log"
    content = bytearray(home.disk.read_file(path))
    content[70] ^= 1
    home.disk.overwrite(path, bytes(content))
    home.open()
    with pytest.raises(CorruptionError):
        home.partition()
    assert ("t", 0) in home.directory.damaged
    append(home.partition("u", 0, IDS[1]))
    assert home.directory.failure is None
    home.directory.close()
    assert not home.disk.exists("/data/.kafka_cleanshutdown")


def test_a_directory_that_can_not_be_read_is_out_of_service(home: Home) -> None:
    home.open()
    home.disk.kill()
    home.disk.plan(Fault("read", path_part="meta.properties"))
    directory = home.open(cluster_id="known")
    assert directory.failure is not None
    assert directory.cluster_id == "known"
    with pytest.raises(StorageError):
        home.partition()


def test_damaged_checkpoints_mean_a_scan_not_a_guess(home: Home) -> None:
    home.open()
    append(home.partition(), 9)
    home.directory.close()
    home.disk.kill()
    home.disk.overwrite("/data/recovery-point-offset-checkpoint", b"0\n5\nt 0 9\n")
    directory = home.open()
    assert not directory.was_clean
    assert [error.path for error in directory.damaged_checkpoints] == [
        "/data/recovery-point-offset-checkpoint"
    ]
    log = home.partition()
    assert log.log_end_offset == 9
    assert log.recovered.scanned_bytes == log.size_bytes


def test_checkpointing_saves_the_indexes_of_a_running_log(home: Home) -> None:
    home.open()
    log = home.directory.open_partition("t", 0, IDS[0], LogConfig(index_interval_bytes=100))
    append(log, 9)
    home.directory.checkpoint({})
    assert home.disk.size("/data/t-0/00000000000000000000.index") == 8 * len(log.active.index) > 0


def test_a_stop_whose_sync_fails_is_not_a_clean_one(home: Home) -> None:
    home.open()
    append(home.partition(), 3)
    home.disk.plan(Fault("sync", path_part=".log"))
    with pytest.raises(StorageError):
        home.directory.close()
    assert home.directory.failure is not None
    assert not home.disk.exists("/data/.kafka_cleanshutdown")


def test_partitions_are_deleted_together(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = home.open()
    logs = [home.partition(index=index) for index in range(20)]
    kept = home.partition("kept")
    append(kept, 3)
    synced: list[str] = []
    plain = home.disk.sync_directory
    monkeypatch.setattr(
        home.disk, "sync_directory", lambda path: (synced.append(path), plain(path))[1]
    )
    directory.delete_partitions(logs)
    assert len(synced) <= 3, "not once for each"
    names = home.disk.list("/data")
    assert len([name for name in names if name.endswith("-delete")]) == 20
    assert not any(directory.has_partition("t", index) for index in range(20))
    assert directory.has_partition("kept", 0)
    home.clock.advance(60_000)
    assert directory.sweep(home.clock.now_ms()) == 20
    assert not [name for name in home.disk.list("/data") if name.startswith("t-")]


def test_a_rename_that_fails_half_way_takes_the_directory_out(home: Home) -> None:
    directory = home.open()
    logs = [home.partition(index=index) for index in range(3)]
    home.disk.plan(Fault("rename", path_part="/data/t-1"))
    with pytest.raises(StorageError):
        directory.delete_partitions(logs)
    assert directory.failure is not None
    home.disk.kill()
    home.disk.heal()
    again = home.open()
    assert [again.has_partition("t", index) for index in range(3)] == [False, True, True]


def test_a_new_folder_is_known_and_one_of_before_too(home: Home) -> None:
    directory = home.open()
    assert not directory.has_partition("t", 0)
    home.partition()
    assert directory.has_partition("t", 0)
    home.disk.kill()
    again = home.open()
    assert again.has_partition("t", 0)
    assert not again.has_partition("t", 1)


def test_the_id_of_a_folder_and_setting_it_aside(home: Home) -> None:
    directory = home.open()
    home.partition(topic_id=IDS[2])
    assert directory.topic_id_of("t", 0) == IDS[2]
    assert directory.topic_id_of("t", 1) is None
    directory.logs.clear()
    directory.set_aside("t", 0)
    assert not directory.has_partition("t", 0)
    (stray,) = [name for name in home.disk.list("/data") if name.startswith("t-0")]
    assert stray.endswith("-stray")


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_other_directories_are_remembered(home: Home, end: str) -> None:
    directory = home.open()
    own = directory.directory_id
    assert directory.known_directories == {own}
    directory.remember({own})
    assert checkpoints.LOG_DIRECTORIES not in home.disk.list("/data"), "nothing to tell"
    directory.remember({IDS[3], IDS[4]})
    home.disk.crash(home.rng) if end == "crash" else home.disk.kill()
    again = home.open()
    assert again.known_directories == {own, IDS[3], IDS[4]}
    again.remember({IDS[3]})
    home.disk.kill()
    assert home.open().known_directories == {own, IDS[3]}


def test_a_damaged_list_of_directories_is_told_and_made_anew(home: Home) -> None:
    directory = home.open()
    directory.remember({IDS[3]})
    home.disk.kill()
    home.disk.overwrite(f"/data/{checkpoints.LOG_DIRECTORIES}", b"0\n1\nnot an id\n")
    again = home.open()
    assert again.known_directories == {again.directory_id}
    assert len(again.damaged_checkpoints) == 1
    again.remember({IDS[3]})
    home.disk.kill()
    assert home.open().known_directories == {directory.directory_id, IDS[3]}


def test_a_disk_that_refuses_to_remember_is_out_of_service(home: Home) -> None:
    directory = home.open()
    home.disk.plan(Fault("write", path_part=checkpoints.LOG_DIRECTORIES))
    directory.remember({IDS[3]})
    assert directory.failure is not None


@pytest.mark.sources
def test_checkpointing_looks_at_the_indexes_of_moved_logs_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = home.open()
    logs = [home.partition(index=index) for index in range(3)]
    append(logs[0])
    looked: list[int] = []
    for log in logs:
        monkeypatch.setattr(
            log, "save_active_indexes", lambda log=log: looked.append(log.partition)
        )
    directory.checkpoint({})
    directory.checkpoint({})
    assert looked == [0, 1, 2]
    append(logs[1])
    directory.checkpoint({})
    assert looked == [0, 1, 2, 1]


class Shortened:
    """Counts what a directory tells of logs that lost something."""

    def __init__(self, home: Home) -> None:
        self.count = 0
        home.directory.on_shortened = self

    def __call__(self) -> None:
        self.count += 1


def noted(home: Home) -> str:
    """A log of five records, the high watermark behind them noted; its last segment."""
    home.open()
    append(home.partition(), 5)
    home.directory.checkpoint({("t", 0): 5})
    home.disk.kill()
    return max(path for path in home.disk.tree() if path.endswith(".log"))


def test_a_log_that_ends_below_its_high_watermark_is_told_of(home: Home) -> None:
    last = noted(home)
    home.open()
    told = Shortened(home)
    assert home.partition().recovered.missing_up_to == 0
    assert told.count == 0
    home.disk.kill()
    home.disk.overwrite(last, b"")
    home.open()
    told = Shortened(home)
    log = home.partition()
    assert log.log_end_offset < 5
    assert log.recovered.cut_bytes == 0, "nothing was torn: the checkpoint alone can tell"
    assert log.recovered.missing_up_to == 5
    assert told.count == 1


def test_a_folder_that_is_gone_is_missed_unless_it_was_deleted(home: Home) -> None:
    noted(home)
    for path in [path for path in home.disk.tree() if path.startswith("/data/t-0/")]:
        home.disk.remove(path)
    home.disk.remove_directory("/data/t-0")
    home.open()
    told = Shortened(home)
    assert home.directory.misses("t", 0) == 5
    assert home.directory.misses("t", 1) == 0
    assert told.count == 1
    append(home.partition(), 2)
    home.directory.delete_partition(home.directory.logs["t", 0])
    home.disk.kill()
    assert home.open().misses("t", 0) == 0, "what is deleted is not missed"
