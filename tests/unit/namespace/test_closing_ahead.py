"""A new file that is closed at once and empty: answered ahead of the disk, and never lost."""

import pytest
from tests.unit.namespace.refusing import refused

from headrace.namespace.journal import DOUBT_MS
from headrace.namespace.leases import RESUMABLE_MAX
from headrace.namespace.requests import (
    AddBlock,
    Append,
    Complete,
    Concat,
    Create,
    Delete,
    Fsync,
    GetFileInfo,
    IsFileClosed,
    Mkdirs,
    RecoverLease,
    Rename,
    Truncate,
)
from headrace.testing.disk import SimulatedDisk
from headrace.testing.namenode import SimulatedNameNode, Turns, durable_state
from headrace.wire.hadoop import exceptions

CLOSE = Complete("/f", "writer")


@pytest.fixture(params=Turns)
def cluster(request: pytest.FixtureRequest) -> SimulatedNameNode:
    """Its disk syncs when it is told to."""
    disk = SimulatedDisk(defer_syncs=True)
    return SimulatedNameNode(datanodes=3, disk=disk, turns=request.param)


def syncs(cluster: SimulatedNameNode) -> int:
    return cluster.disk.sync_count


def test_it_is_answered_at_once_and_shares_the_next_sync(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    before = syncs(cluster)
    assert cluster.submit(CLOSE).value() is True
    cluster.settle()
    assert syncs(cluster) == before
    cluster.create("/g")
    assert syncs(cluster) == before + 1
    assert cluster.ask(IsFileClosed("/f")) is True
    assert syncs(cluster) == before + 1


def test_with_nobody_else_it_is_synced_soon(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    before = syncs(cluster)
    assert cluster.submit(CLOSE).value() is True
    for _ in range(2):
        cluster.advance(DOUBT_MS)
    assert syncs(cluster) == before + 1
    journal = cluster.namenode.journal
    assert journal.high_watermark == cluster.ns.last_offset + 1
    assert cluster.ns.durable_sequence == cluster.ns.sequence


def test_who_sees_it_closed_waits_for_the_disk(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.submit(CLOSE)
    seen = [cluster.submit(IsFileClosed("/f")), cluster.submit(GetFileInfo("/f"))]
    again = cluster.submit(CLOSE)
    assert not any(promise.settled for promise in (*seen, again))
    cluster.settle()
    assert (seen[0].value(), again.value()) == (True, True)


@pytest.mark.parametrize("end", ["kill", "power"])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_no_crash_takes_it_back(cluster: SimulatedNameNode, end: str, has_checkpoint: bool) -> None:
    cluster.create("/f")
    if has_checkpoint:
        cluster.checkpoint()
    assert cluster.submit(CLOSE).value() is True
    for _ in range(2):
        cluster.restart() if end == "kill" else cluster.lose_power()
        assert cluster.ask(IsFileClosed("/f")) is True
        assert cluster.ask(CLOSE) is True, "a retry"
        assert not cluster.ns.leases.by_holder
    assert cluster.ask(Append("/f", "other")).status.length == 0


def test_a_close_that_shared_a_torn_batch_is_not_lost(cluster: SimulatedNameNode) -> None:
    """Whatever part of the batch is on disk, the file is closed."""
    for number in range(20):
        path = f"/f{number}"
        cluster.create(path)
        assert cluster.submit(Complete(path, "writer")).value() is True
        cluster.submit(Mkdirs(f"/d{number}", 0o755))
        cluster.lose_power()
        assert cluster.ask(IsFileClosed(path)) is True


@pytest.mark.parametrize("request_of", [AddBlock, Fsync])
def test_a_writer_that_had_not_closed_goes_on(
    cluster: SimulatedNameNode, request_of: type[AddBlock] | type[Fsync]
) -> None:
    cluster.create("/f")
    cluster.restart()
    assert cluster.ns.leases.resumable == {cluster.ask(GetFileInfo("/f")).inode_id: "writer"}
    cluster.ask(request_of("/f", "writer"))
    assert cluster.ask(IsFileClosed("/f")) is False
    assert not cluster.ns.leases.resumable
    last = cluster.pipeline(cluster.add_block("/f"), 10)
    assert cluster.ask(Complete("/f", "writer", last)) is True
    cluster.restart()
    assert cluster.ask(GetFileInfo("/f")).length == 10


def test_a_writer_goes_on_under_another_name_and_after_a_checkpoint(
    cluster: SimulatedNameNode,
) -> None:
    file_id = cluster.create("/f").inode_id
    cluster.restart()
    cluster.ask(Rename("/f", "/g"))
    cluster.checkpoint()
    cluster.restart()
    cluster.ask(AddBlock("/f", "writer", file_id=file_id))
    assert cluster.ask(IsFileClosed("/g")) is False


def test_a_retry_of_the_create_opens_it_again(cluster: SimulatedNameNode) -> None:
    """The answer was lost with the NameNode: who gets it now has the file, as it says."""
    caller = cluster.caller()
    request = Create("/f", 0o644, "writer", 1, True, 3, 1 << 20)
    first = cluster.ask(request, caller)
    cluster.restart()
    assert cluster.ask(request, caller) == first
    assert cluster.ask(IsFileClosed("/f")) is False
    assert refused(cluster, Append("/f", "other")) == exceptions.ALREADY_BEING_CREATED
    cluster.restart()
    assert cluster.ask(IsFileClosed("/f")) is False


def test_nobody_but_the_writer_goes_on(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.restart()
    assert refused(cluster, AddBlock("/f", "other")) == exceptions.LEASE_EXPIRED
    assert cluster.ask(IsFileClosed("/f")) is True


@pytest.mark.parametrize("taken", [Append("/f", "other"), RecoverLease("/f", "other")])
def test_a_writer_that_another_one_has_replaced_does_not_go_on(
    cluster: SimulatedNameNode, taken: Append | RecoverLease
) -> None:
    cluster.create("/f")
    cluster.restart()
    cluster.ask(taken)
    cluster.restart()
    cluster.ask(Complete("/f", "other"))
    assert refused(cluster, AddBlock("/f", "writer")) == exceptions.LEASE_EXPIRED
    assert cluster.ask(IsFileClosed("/f")) is True


@pytest.mark.parametrize("end", ["kill", "power"])
def test_what_is_not_closed_at_once_stays_open(cluster: SimulatedNameNode, end: str) -> None:
    cluster.create("/f")
    for _ in range(2):
        cluster.advance(DOUBT_MS)
    cluster.restart() if end == "kill" else cluster.lose_power()
    assert cluster.ask(IsFileClosed("/f")) is False
    other = Create("/f", 0o644, "other", 1, True, 3, 1 << 20)
    assert refused(cluster, other) == exceptions.ALREADY_BEING_CREATED
    close = cluster.submit(CLOSE)
    assert not close.settled, "the log says that it is open"
    cluster.settle()
    assert close.value() is True


def test_a_clean_stop_leaves_it_open_and_keeps_what_was_closed(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.submit(CLOSE)
    cluster.namenode.journal.close()
    cluster.open()
    assert cluster.ask(IsFileClosed("/f")) is True
    assert not cluster.ns.leases.resumable, "nothing had to be taken for granted"
    cluster.create("/g")
    cluster.namenode.journal.close()
    cluster.open()
    assert cluster.ask(IsFileClosed("/g")) is False


def test_with_another_edit_between_it_waits(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.ask(Mkdirs("/d", 0o755))
    close = cluster.submit(CLOSE)
    assert not close.settled
    cluster.settle()
    assert close.value() is True


def test_while_something_is_not_durable_it_waits(cluster: SimulatedNameNode) -> None:
    cluster.submit(Create("/f", 0o644, "writer", 1, True, 3, 1 << 20))
    assert not cluster.submit(CLOSE).settled


def test_a_file_with_a_block_is_closed_on_the_disk(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    last = cluster.pipeline(cluster.add_block("/f"), 10)
    close = cluster.submit(Complete("/f", "writer", last))
    assert not close.settled
    cluster.settle()
    assert close.value() is True


def test_the_oldest_that_could_go_on_are_forgotten() -> None:
    cluster = SimulatedNameNode()
    for number in range(RESUMABLE_MAX + 2):
        cluster.create(f"/{number}")
        cluster.restart()
    ids = [cluster.ask(GetFileInfo(f"/{n}")).inode_id for n in range(RESUMABLE_MAX + 2)]
    assert list(cluster.ns.leases.resumable) == ids[2:]
    before = durable_state(cluster.ns)
    cluster.checkpoint()
    cluster.restart()
    assert durable_state(cluster.ns) == before


def test_a_slow_disk_is_not_asked_for_more(cluster: SimulatedNameNode) -> None:
    made = cluster.submit(Create("/f", 0o644, "writer", 1, True, 3, 1 << 20))
    last = cluster.ns.last_offset
    for _ in range(3):
        cluster.timers.advance(DOUBT_MS)
    assert not made.settled, "the disk is still at it"
    cluster.timers.advance(DOUBT_MS - 1)
    cluster.settle()
    cluster.timers.advance(1)
    assert made.settled
    assert cluster.ns.last_offset == last, "it had a millisecond to close its file"
    assert cluster.submit(CLOSE).value() is True


def test_a_close_after_the_start_is_the_end(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.restart()
    assert cluster.ask(CLOSE) is True
    assert refused(cluster, AddBlock("/f", "writer")) == exceptions.LEASE_EXPIRED
    assert not cluster.ns.leases.resumable


def test_who_is_silent_for_longer_than_a_lease_does_not_go_on(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.restart()
    cluster.run(cluster.settings.lease_hard_limit_ms * 6 // 5, 3_000)
    assert refused(cluster, AddBlock("/f", "writer")) == exceptions.LEASE_EXPIRED


def test_who_renews_its_lease_goes_on(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.restart()
    step_ms = cluster.settings.lease_hard_limit_ms // 4
    for _ in range(6):
        cluster.namenode.renew_lease("writer")
        cluster.run(step_ms, 3_000)
    cluster.add_block("/f")


def test_who_was_replaced_by_a_concat_does_not_go_on(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.restart()
    cluster.write("/g", 10, client="other")
    cluster.ask(Concat("/f", ("/g",)))
    assert cluster.ask(Truncate("/f", 0, "other")) is True
    assert refused(cluster, AddBlock("/f", "writer")) == exceptions.LEASE_EXPIRED


def test_a_deleted_file_leaves_nothing(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    cluster.restart()
    cluster.ask(Delete("/f", False))
    assert not cluster.ns.leases.resumable


def test_a_stop_while_a_sync_is_asked_for(cluster: SimulatedNameNode) -> None:
    cluster.create("/f")
    for _ in range(2):
        cluster.timers.advance(DOUBT_MS)  # that it is open is decided, and not written
    cluster.namenode.journal.close()
    cluster.disk.kill()
    cluster.open()
    assert cluster.ask(IsFileClosed("/f")) is False
