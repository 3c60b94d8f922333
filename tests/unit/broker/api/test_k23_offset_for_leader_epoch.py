"""OffsetForLeaderEpoch in every version: where an epoch ends in this log."""

import pytest
from tests.unit.broker.dialogue import Client, batch, dialogue

from headrace.testing.broker import SimulatedBroker
from headrace.testing.disk import Fault
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

VERSIONS = range(2, 5)


def end_of(
    client: Client,
    epoch: int,
    *,
    version: int = 4,
    topic: str = "t",
    index: int = 0,
    current_leader_epoch: int = -1,
) -> EpochEndOffset:
    one = OffsetForLeaderPartition(
        partition=index, leader_epoch=epoch, current_leader_epoch=current_leader_epoch
    )
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[one])]
    )
    ((found,),) = [topic.partitions for topic in client.ask(request, version).topics]
    assert isinstance(found, EpochEndOffset)
    return found


@pytest.fixture
def three_epochs() -> tuple[SimulatedBroker, Client]:
    """Epoch 0 has the offsets 0–1, epoch 1 has 2, epoch 2 nothing, epoch 3 has 3–5."""
    broker, client = dialogue()
    client.produce("t", 0, batch("a", "b"))
    for count in (1, 0, 3):
        broker.reboot()
        broker.start()
        client = Client(broker)
        for n in range(count):
            client.produce("t", 0, batch(f"{n}"))
    return broker, client


@pytest.mark.parametrize("version", VERSIONS)
def test_where_epochs_end(version: int, three_epochs: tuple[SimulatedBroker, Client]) -> None:
    _, client = three_epochs
    for epoch, expected in ((0, (0, 2)), (1, (1, 3)), (2, (1, 3)), (3, (3, 6)), (4, (-1, -1))):
        found = end_of(client, epoch, version=version)
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, *expected)


def test_the_clients_own_idea_of_the_epoch(three_epochs: tuple[SimulatedBroker, Client]) -> None:
    _, client = three_epochs
    for current, error in (
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (3, ErrorCode.NONE),
    ):
        assert end_of(client, 0, current_leader_epoch=current).error_code == error


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_epochs_survive(end: str, three_epochs: tuple[SimulatedBroker, Client]) -> None:
    broker, _ = three_epochs
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    partition.log.flush_now()
    getattr(broker, end)()
    broker.start()
    client = Client(broker)
    for epoch, expected in ((0, (0, 2)), (1, (1, 3)), (3, (3, 6))):
        found = end_of(client, epoch)
        assert (found.leader_epoch, found.end_offset) == expected


def test_unknown_partitions_and_failed_ones() -> None:
    broker, client = dialogue()
    assert end_of(client, 0, topic="u").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert end_of(client, 0, index=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.disk.plan(Fault("write", path_part="/t-0/"))
    client.produce("t", 0, batch("a"))
    assert end_of(client, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
