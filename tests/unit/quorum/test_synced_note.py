"""How far a log was synced, noted beside it, and what a replica makes of a log that lacks some."""

from random import Random

import pytest
from tests.unit.quorum.test_replica_disk import (
    FOLDER,
    ONE,
    TWO,
    entry,
    key,
    opened,
    reopened,
    snapshot,
    with_entries,
)

from headrace.base.errors import CorruptionError
from headrace.base.events import EventLog
from headrace.quorum.election_state import ElectionState
from headrace.quorum.log_view import LogView, SnapshotId
from headrace.quorum.quorum_state_file import QUORUM_STATE, encode_quorum_state
from headrace.quorum.replica_disk import ReplicaDisk
from headrace.quorum.synced_note import QUORUM_SYNCED, SyncedNote, read_synced_note
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.records import read_batches


def storage_of(disk: ReplicaDisk) -> SimulatedDisk:
    assert isinstance(disk.storage, SimulatedDisk)
    return disk.storage


def synced(*epochs: int) -> ReplicaDisk:
    """A replica's disk with one entry an epoch, all synced and noted."""
    disk = with_entries(*epochs)
    disk.storage.replace_file(
        f"{FOLDER}/{QUORUM_STATE}", encode_quorum_state(ElectionState(max(epochs)))
    )
    loaded = disk.load(TWO)
    disk.on_synced(loaded.log.position)
    return disk


def cut(storage: SimulatedDisk, entries: int) -> None:
    """The last entries of the log are gone, and the last that stays is whole."""
    path = f"{FOLDER}/00000000000000000000.log"
    content = storage.read_file(path)
    sizes = [header.size_bytes for header, _ in read_batches(content)]
    storage.overwrite(path, content[: sum(sizes[:-entries])])


def test_a_note_survives_the_end_of_a_process() -> None:
    storage = SimulatedDisk()
    storage.make_directory(FOLDER)
    note = SyncedNote(storage, FOLDER)
    assert note.end is None
    for offset in range(1, 8):
        note.raise_to(SnapshotId(offset, 1))
    storage.kill()
    assert read_synced_note(storage, FOLDER) == (7, SnapshotId(7, 1))


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_cut_it_says_less_and_nothing_wrong(seed: int) -> None:
    storage = SimulatedDisk()
    storage.make_directory(FOLDER)
    storage.sync_directory("/")
    storage.sync_directory("d")
    note = SyncedNote(storage, FOLDER)
    for offset in range(1, 8):
        note.raise_to(SnapshotId(offset, 1))
    note.lower_to(SnapshotId(3, 1))
    note.raise_to(SnapshotId(4, 2))
    note.raise_to(SnapshotId(5, 2))
    storage.crash(Random(seed))
    end = read_synced_note(storage, FOLDER)[1]
    assert end in (None, SnapshotId(3, 1), SnapshotId(4, 2), SnapshotId(5, 2))


def test_it_is_raised_by_the_epoch_first_and_never_lowered_by_a_sync() -> None:
    storage = SimulatedDisk()
    storage.make_directory(FOLDER)
    note = SyncedNote(storage, FOLDER)
    note.raise_to(SnapshotId(10, 2))
    note.raise_to(SnapshotId(9, 2))
    assert note.end == SnapshotId(10, 2)
    note.raise_to(SnapshotId(4, 3))
    assert note.end == SnapshotId(4, 3)
    note.lower_to(SnapshotId(20, 3))
    assert note.end == SnapshotId(4, 3)


@pytest.mark.parametrize("position", range(48))
def test_a_flipped_bit_makes_it_older_at_worst(position: int) -> None:
    storage = SimulatedDisk()
    storage.make_directory(FOLDER)
    note = SyncedNote(storage, FOLDER)
    note.raise_to(SnapshotId(10, 2))
    note.raise_to(SnapshotId(11, 2))
    path = f"{FOLDER}/{QUORUM_SYNCED}"
    content = bytearray(storage.read_file(path))
    content[position] ^= 0x10
    storage.overwrite(path, bytes(content))
    assert read_synced_note(storage, FOLDER)[1] in (SnapshotId(10, 2), SnapshotId(11, 2))


def test_a_log_as_long_as_its_note_lacks_nothing() -> None:
    disk = synced(1, 1, 2)
    assert disk.note.end == SnapshotId(3, 2)
    assert reopened(storage_of(disk)).load(TWO).log.had is None


def test_a_log_that_lost_its_end_is_known_by_the_note() -> None:
    storage = storage_of(synced(1, 1, 2, 2))
    storage.kill()
    cut(storage, 2)
    disk = opened(storage)
    log = disk.load(TWO).log
    assert (log.end_offset, log.last_epoch) == (2, 1)
    assert log.had == SnapshotId(4, 2)
    assert not log.is_up_to_date(1, 2)
    assert not log.is_up_to_date(2, 3)
    assert log.is_up_to_date(2, 4)
    assert log.is_up_to_date(3, 3)
    # What comes anew is noted only when it reaches as far.
    for offset in (2, 3):
        log.append([entry(offset, 2)])
        disk.append([entry(offset, 2)])
        disk.write()
        disk.on_synced(log.position)
        assert (log.had is None) is (offset == 3)
        assert disk.note.end == SnapshotId(4, 2)


def test_the_whole_log_may_be_gone() -> None:
    storage = storage_of(synced(1, 1, 2))
    storage.kill()
    storage.remove(f"{FOLDER}/00000000000000000000.log")
    assert opened(storage).load(TWO).log.had == SnapshotId(3, 2)


def test_a_snapshot_before_the_lost_end_does_not_heal() -> None:
    disk = synced(1, 1, 2, 2)
    storage = storage_of(disk)
    snapshot(storage, SnapshotId(3, 2), TWO)
    storage.kill()
    cut(storage, 2)
    log = opened(storage).load(TWO).log
    assert (log.start_offset, log.end_offset) == (3, 3)
    assert log.had == SnapshotId(4, 2)


def test_a_truncation_that_a_leader_asks_for_is_no_loss() -> None:
    disk = synced(1, 1, 2)
    log = disk._view
    log.truncate_to(2)
    disk.truncate_to(2)
    assert disk.note.end == SnapshotId(2, 1)
    storage = storage_of(disk)
    storage.crash(Random(3))
    assert opened(storage).load(TWO).log.had is None


def test_a_truncation_settles_what_was_lost() -> None:
    log = LogView()
    log.append([entry(0, 1), entry(1, 1)])
    log.note_past(SnapshotId(4, 2))
    assert log.had is not None
    log.truncate_to(1)
    assert log.had is None


def test_a_lost_election_state_is_not_taken_for_a_new_disk() -> None:
    storage = storage_of(synced(1, 1))
    storage.kill()
    storage.remove(f"{FOLDER}/{QUORUM_STATE}")
    with pytest.raises(CorruptionError, match=QUORUM_STATE):
        opened(storage).load(TWO)


def told(disk: ReplicaDisk, voters: int) -> list[str]:
    lines: list[str] = []
    events = EventLog(lines.append, SimulatedClock())
    disk.tell_of_loss(disk.load(ONE if voters == 1 else TWO), key(1), events)
    return lines


def test_a_loss_is_told_loudly_and_ends_the_only_voter() -> None:
    storage = storage_of(synced(1, 1, 1))
    storage.kill()
    path = f"{FOLDER}/00000000000000000000.log"
    storage.overwrite(path, storage.read_file(path)[:-5])
    lines = told(opened(storage), 2)
    assert [word for line in lines for word in line.split() if word.startswith("event=")] == [
        "event=quorum_log_cut",
        "event=quorum_log_lacks",
    ]
    storage.kill()
    with pytest.raises(CorruptionError, match="synced up to 3"):
        told(opened(storage), 1)
    storage.kill()
    storage.remove(f"{FOLDER}/{QUORUM_SYNCED}")
    assert told(opened(storage), 1) == []
