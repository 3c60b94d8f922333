"""One partition, whatever happens to it: who leads then, and what is written."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.image import LEADER_UNCHANGED, NO_LEADER, PartitionImage
from headrace.cluster.partition_change import (
    Election,
    change_partition,
    directories_for,
    is_unclean,
)
from headrace.cluster.registrations import partition_after
from headrace.wire.kafka.messages.metadata_records import PartitionChangeRecord

ID = b"0123456789abcdef"
BROKERS = (1, 2, 3, 4, 5)


def partition(**fields: object) -> PartitionImage:
    values: dict[str, object] = {
        "index": 0,
        "leader": 1,
        "leader_epoch": 5,
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "partition_epoch": 7,
    }
    return PartitionImage(**{**values, **fields})  # type: ignore[arg-type]


def change(
    before: PartitionImage,
    target: PartitionImage,
    up: tuple[int, ...] = BROKERS,
    election: Election = Election.ONLINE,
) -> tuple[PartitionChangeRecord | None, PartitionImage]:
    record = change_partition(ID, before, target, up.__contains__, election)
    return record, before if record is None else partition_after(before, record)


def test_nothing_is_written_where_nothing_changes() -> None:
    assert change(partition(), partition())[0] is None


def test_a_leader_that_can_stay_stays_and_its_epoch_with_it() -> None:
    record, after = change(partition(), partition(isr=(1, 3)))
    assert record is not None
    assert record.leader == LEADER_UNCHANGED
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (1, 5, 8)


@pytest.mark.parametrize(
    ("isr", "up", "election", "leader"),
    [
        ((2, 3), (2, 3), Election.ONLINE, 2),
        ((3, 2), (2, 3), Election.ONLINE, 2),
        ((2, 3), (3,), Election.ONLINE, 3),
        ((1, 2), (3,), Election.ONLINE, NO_LEADER),
        ((1, 2), (3,), Election.PREFERRED, NO_LEADER),
        ((1, 2), (3,), Election.UNCLEAN, 3),
        ((1, 2), (2, 3), Election.UNCLEAN, 2),
        ((1, 2), (), Election.UNCLEAN, NO_LEADER),
    ],
)
def test_the_first_of_the_replicas_that_may(
    isr: tuple[int, ...], up: tuple[int, ...], election: Election, leader: int
) -> None:
    _, after = change(partition(), partition(isr=isr), up, election)
    assert after.leader == leader


def test_the_preferred_leader_takes_over_only_when_asked() -> None:
    before = partition(leader=2)
    assert change(before, before)[0] is None
    assert change(before, before, election=Election.UNCLEAN)[0] is None
    assert change(before, before, election=Election.PREFERRED)[1].leader == 1


def test_the_last_of_an_isr_stays_in_it_without_leading() -> None:
    before = partition(isr=(1,))
    record, after = change(before, replace(before, isr=()), up=(2, 3))
    assert record is not None
    assert record.isr is None
    assert (after.leader, after.isr) == (NO_LEADER, (1,))
    assert change(after, after, up=(2, 3))[0] is None
    assert change(after, after)[1].leader == 1


def test_an_unclean_leader_is_marked_and_known() -> None:
    before = partition(isr=(1,))
    record, after = change(before, replace(before, isr=()), (2, 3), Election.UNCLEAN)
    assert record is not None
    assert is_unclean(before, record)
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)
    again, third = change(after, replace(after, isr=()), (3,), Election.UNCLEAN)
    assert again is not None
    assert is_unclean(after, again)
    assert (third.leader, third.leader_recovery_state) == (3, 1)


def test_a_clean_leader_is_not_taken_for_an_unclean_one() -> None:
    before = partition()
    record, _ = change(before, partition(isr=(2, 3)))
    assert record is not None
    assert not is_unclean(before, record)
    assert not is_unclean(before, PartitionChangeRecord(leader=NO_LEADER))


def test_directories_go_with_their_replicas() -> None:
    before = partition(directories=(b"a" * 16, b"b" * 16, bytes(16)))
    assert directories_for(before, (3, 2, 9)) == (bytes(16), b"b" * 16, bytes(16))
    assert directories_for(before, (3, 9)) == ()
    assert directories_for(partition(), (1, 2)) == ()


@st.composite
def partitions(draw: st.DrawFn) -> PartitionImage:
    replicas = tuple(draw(st.permutations(BROKERS))[: draw(st.integers(1, 5))])
    isr = tuple(draw(st.permutations(replicas))[: draw(st.integers(1, len(replicas)))])
    split = draw(st.integers(0, len(replicas)))
    adding = replicas[:split] if draw(st.booleans()) else ()
    removing = replicas[split:] if draw(st.booleans()) and split else ()
    return PartitionImage(
        index=0,
        leader=draw(st.sampled_from((NO_LEADER, *isr))),
        leader_epoch=draw(st.integers(0, 9)),
        replicas=replicas,
        isr=isr,
        partition_epoch=draw(st.integers(0, 9)),
        adding_replicas=adding,
        removing_replicas=removing,
        leader_recovery_state=draw(st.sampled_from((0, 1))),
    )


@given(partitions(), st.data(), st.sets(st.sampled_from(BROKERS)), st.sampled_from(Election))
def test_whatever_happens_the_rules_hold(
    before: PartitionImage, data: st.DataObject, up: set[int], election: Election
) -> None:
    isr = tuple(data.draw(st.lists(st.sampled_from(before.replicas), unique=True)))
    record, after = change(before, replace(before, isr=isr), tuple(up), election)
    assert after.isr
    assert set(after.isr) <= set(after.replicas)
    assert after.leader == NO_LEADER or after.leader in after.isr
    assert after.leader == NO_LEADER or after.leader in up
    if after.leader not in (NO_LEADER, *isr):
        assert election is Election.UNCLEAN
        assert not set(isr) & up
        assert (after.isr, after.leader_recovery_state) == ((after.leader,), 1)
    if after.leader == NO_LEADER and election is Election.UNCLEAN:
        assert not set(after.replicas) & up
    if after.leader != before.leader:
        assert after.leader_epoch == before.leader_epoch + 1
    if record is None:
        assert after == before
    else:
        assert after.partition_epoch == before.partition_epoch + 1
    if after.leader in isr:
        # Nothing is left to do.
        assert change(after, after, tuple(up), election)[0] is None
    if before.is_moving and not after.is_moving:
        assert set(after.replicas) == set(before.replicas) - set(before.removing_replicas)
        assert set(after.replicas) <= set(isr)
