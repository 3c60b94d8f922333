"""What a leader gives replicas that catch up, and the arithmetic of both throttles."""

from typing import Any

import pytest
from tests.unit.broker.dialogue import Client, batch, dialogue, wanted

from headrace.base.config import LONG_MAX
from headrace.broker.replication.in_sync import InSync
from headrace.broker.replication.throttle import (
    PAUSE_MS_MAX,
    VALUES_MAX,
    ReplicationThrottle,
)
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.messages.fetch import FetchRequest, FetchResponse, ReplicaState

VERSION = 17
BEHIND, IN_SYNC = 2, 3


def test_the_rate_holds_from_the_first_second_on() -> None:
    throttle = ReplicationThrottle(7, 1_000, 11)
    throttle.set(1_000)
    throttle.record(900, 0)
    assert throttle.pause_ms(10) == 0
    throttle.record(600, 20)
    assert throttle.pause_ms(20) == PAUSE_MS_MAX
    assert throttle.pause_ms(1_020) == 480
    assert throttle.pause_ms(1_500) == 0


def test_without_a_rate_nobody_waits_and_a_rate_of_zero_lets_nothing_through() -> None:
    throttle = ReplicationThrottle(7, 1_000, 11)
    throttle.record(10**12, 0)
    assert throttle.pause_ms(0) == 0
    throttle.set(0)
    assert throttle.pause_ms(100_000) == PAUSE_MS_MAX
    throttle.set(LONG_MAX)
    assert throttle.pause_ms(0) == 0


def test_a_long_debt_is_looked_at_again_every_second() -> None:
    throttle = ReplicationThrottle(7, 1_000, 11)
    throttle.set(1)
    throttle.record(10**9, 0)
    assert throttle.pause_ms(0) == PAUSE_MS_MAX


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [((), False), (("*",), True), (("0:1", "3:7"), True), (("3:8", "4:7"), False)],
)
def test_replicas_are_named_by_partition_and_broker(
    replicas: tuple[str, ...], expected: bool
) -> None:
    throttle = ReplicationThrottle(7, 1_000, 11)
    assert throttle.names(replicas, 3) is expected
    assert throttle.names(replicas, 3) is expected, "the second time by heart"


def test_many_values_are_not_mixed_up() -> None:
    throttle = ReplicationThrottle(7, 1_000, 11)
    for index in range(3 * VALUES_MAX):
        value = (f"{index}:7",)  # each an object of its own, most of them gone soon
        assert throttle.names(value, index)
        assert not throttle.names(value, index + 1)


# The leader's side.


def stage(**configs: str) -> tuple[SimulatedBroker, Client]:
    """A topic led here with two followers, of which one is in sync."""
    broker, client = dialogue("t", **configs)
    for _ in range(10):
        client.produce("t", 0, batch("x" * 1_000))
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    end = partition.log.log_end_offset
    now_ms = broker.clock.monotonic_ms()
    partition.lead(
        partition.leader_epoch,
        InSync(1, 1, (1, BEHIND, IN_SYNC), (1, IN_SYNC), 0, 0, end, 30_000, now_ms),
    )
    return broker, client


def request_of(client: Client, replica: int, **fields: Any) -> FetchRequest:
    one = wanted(0, 0, max_bytes=1_000)
    one.current_leader_epoch = 0
    return client.fetch_request(
        {"t": [one]},
        VERSION,
        replica_state=ReplicaState(replica_id=replica, replica_epoch=1),
        **fields,
    )


def length_of(response: FetchResponse) -> int:
    return sum(len(p.records or b"") for t in response.responses for p in t.partitions)


def test_a_replica_out_of_sync_gets_nothing_while_the_rate_is_exceeded() -> None:
    broker, client = stage(leader_replication_throttled_replicas="0:1")
    throttle = broker.broker.replication.leader_throttle
    throttle.set(1_000)
    first = client.ask(request_of(client, BEHIND), VERSION)
    assert length_of(first) > 1_000
    assert throttle.byte_count == length_of(first)
    assert length_of(client.ask(request_of(client, BEHIND), VERSION)) == 0
    assert throttle.held_count
    # One in sync is counted too, and served.
    assert length_of(client.ask(request_of(client, IN_SYNC), VERSION)) > 1_000
    assert throttle.byte_count > length_of(first)
    broker.advance(5_000)
    assert length_of(client.ask(request_of(client, BEHIND), VERSION)) > 1_000


def test_a_fetch_that_waits_is_answered_when_the_rate_allows_and_not_by_new_records() -> None:
    broker, client = stage(leader_replication_throttled_replicas="*")
    throttle = broker.broker.replication.leader_throttle
    throttle.set(1_000)
    client.ask(request_of(client, BEHIND), VERSION)
    broker.advance(500)
    other = Client(broker)
    waits = request_of(other, BEHIND, max_wait_ms=10_000, min_bytes=1)
    other.transport.feed(other.frame(waits, VERSION))
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    partition.append(bytearray(batch("new")), broker.clock.now_ms())
    broker.settle()
    assert other.answers(FetchRequest, VERSION) == []
    broker.advance(PAUSE_MS_MAX)
    (answer,) = other.answers(FetchRequest, VERSION)
    assert length_of(answer) > 1_000


def test_other_topics_and_unthrottled_brokers_are_served() -> None:
    broker, client = stage(leader_replication_throttled_replicas="0:9,1:1")
    broker.broker.replication.leader_throttle.set(1)
    for _ in range(3):
        assert length_of(client.ask(request_of(client, BEHIND), VERSION)) > 1_000
    assert broker.broker.replication.leader_throttle.byte_count == 0
