"""Who follows whom when leaders change under the fetchers."""

from typing import Any

import pytest
from tests.unit.cluster.images import image_of

from headrace.base.broker_config import BrokerConfig
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.topic_config import TopicConfig
from headrace.broker.partition import Partition
from headrace.broker.replication.replication import Replication
from headrace.cluster.image import ClusterImage
from headrace.cluster.registrations import PartitionImage
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.quorum.peers import OnAnswer
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.testing.cluster_simulation.bugs import BUGS
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.records import build_batch

TOPIC_ID = bytes(range(16))


class Silent:
    """Peers that never answer, and a controller that is never asked."""

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:
        """Nothing comes back."""

    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]:  # noqa: ARG002
        raise AssertionError("nothing is proposed here")


def replication(image: ClusterImage | None = None) -> Replication:
    clock = SimulatedClock()
    return Replication(
        me=1,
        broker_epoch=lambda: 10,
        config=BrokerConfig.of({"log.dirs": "/data"}),
        image=lambda: image or ClusterImage(),
        controller=Silent(),
        peers=Silent(),
        clock=clock,
        timers=SimulatedTimers(clock),
        events=EventLog(lambda _: None, clock),
        on_role=lambda _partition, _leads: None,
    )


def partition(index: int) -> Partition:
    disk = SimulatedDisk()
    log = PartitionLog.open(
        disk,
        f"/t-{index}",
        "t",
        index,
        LogConfig(),
        SimulatedClock(),
        topic_id=TOPIC_ID,
        files=FileBudget(disk),
    )
    return Partition("t", index, TOPIC_ID, log, TopicConfig(), 0)


def led_by(leader: int, epoch: int, index: int) -> PartitionImage:
    return PartitionImage(index, leader, epoch, (1, 2, 3), (2, 3))


def test_a_partition_that_its_fetcher_gave_up_follows_the_next_leader() -> None:
    roles, given_up, other = replication(), partition(0), partition(1)
    roles.on_described(given_up, led_by(2, 1, 0))
    roles.on_described(other, led_by(2, 1, 1))
    (fetcher,) = roles.fetchers
    fetcher.remove((TOPIC_ID, 0))  # as after FENCED_LEADER_EPOCH
    roles.on_described(other, led_by(-1, 2, 1))
    assert roles.fetchers == []
    roles.on_described(given_up, led_by(3, 2, 0))
    assert [each.leader_id for each in roles.fetchers] == [3]


class WaitingFetch:
    """A follower's fetch that waits, as often as it is answered."""

    def __init__(self, waits_on: Partition) -> None:
        self._waits_on = waits_on
        self.answer_count = 0
        waits_on.wait(self, follower=True)

    def on_appended(self, byte_count: int) -> None:
        assert byte_count > 0
        self.answer_count += 1

    def on_gone(self) -> None:
        self.answer_count += 1


def test_followers_that_wait_are_answered_until_they_come_for_what_is_led_since() -> None:
    """Their fetch knows nothing of it: it would wait, and writers with it, for half a second."""
    roles, before, since = replication(), partition(0), partition(1)
    timers = roles._timers
    assert isinstance(timers, SimulatedTimers)
    roles.on_described(before, led_by(1, 1, 0))
    fetched(roles, before, 2)
    fetched(roles, before, 3)
    timers.advance(0)
    roles.tick()
    fetch = WaitingFetch(before)
    roles.tick()
    assert fetch.answer_count == 0, "everybody came already"

    roles.on_described(since, led_by(1, 1, 1))
    timers.advance(0)
    assert fetch.answer_count == 1
    fetched(roles, since, 2)
    roles.tick()
    assert fetch.answer_count == 2, "one of the two has not come yet"
    fetched(roles, since, 3)
    roles.tick()
    roles.tick()
    assert fetch.answer_count == 2


def fetched(roles: Replication, led: Partition, follower: int) -> None:
    roles.on_fetched(led, follower, 20, led.log.log_end_offset, 0, 1)


def test_nobody_is_called_for_a_partition_that_is_led_no_more() -> None:
    roles, before, since = replication(), partition(0), partition(1)
    timers = roles._timers
    assert isinstance(timers, SimulatedTimers)
    roles.on_described(before, led_by(1, 1, 0))
    fetched(roles, before, 2)
    fetched(roles, before, 3)
    timers.advance(0)
    fetch = WaitingFetch(before)
    roles.on_described(since, led_by(1, 1, 1))
    roles.on_described(since, led_by(2, 2, 1))
    timers.advance(0)
    roles.tick()
    assert fetch.answer_count == 0


def test_6_1_no_5_a_follower_below_the_epochs_start_stays_out() -> None:
    """KAFKA-7128: what a new leader knows to be committed lags behind what was acknowledged, and a
    follower that has no more than that lacks the rest."""
    roles, led = replication(image_of({})), partition(0)
    for _ in range(3):
        led.log.append(build_batch([(None, b"value", (), 0)]), 0, 0)
    led.high_watermark = 1
    roles.on_described(led, PartitionImage(0, 1, 1, (1, 2, 3), (1, 2)))
    in_sync = led.in_sync
    assert in_sync is not None
    assert (led.high_watermark, in_sync.epoch_start_offset) == (1, 3)
    for offset in (1, 2):
        roles.on_fetched(led, 3, 103, offset, 0, 1)
        assert in_sync.maximal_isr == {1, 2}, f"it has no more than {offset} of 3"
    assert led.high_watermark == 1
    roles.on_fetched(led, 3, 103, 3, 0, 1)
    assert in_sync.maximal_isr == {1, 2, 3}


def test_6_1_no_5_fails_where_the_high_watermark_is_enough_to_join() -> None:
    (bug,) = [each for each in BUGS if each.name == "isr join below the epoch start"]
    with bug.switched_on(), pytest.raises(AssertionError, match="no more than 1 of 3"):
        test_6_1_no_5_a_follower_below_the_epochs_start_stays_out()
