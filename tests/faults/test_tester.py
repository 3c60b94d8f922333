"""The judges judged: a log that was tampered with while the broker was dead must be noticed.

Silence of the other fault tests means something only as long as these fail the sabotaged runs.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.load import PADDING, ProduceLoad, await_acknowledged
from tests.faults.readers import batches, invented, read_by_librdkafka, segments
from tests.interop.confluent import create_topic

from headrace.testing import checkers
from headrace.testing.cluster import LocalBroker
from headrace.testing.history import History
from headrace.wire.kafka.record_batch import stamp
from headrace.wire.kafka.records import build_batch

TOPIC = "tampered"


def cut(log: Path) -> None:
    """The last ten batches are gone, as after a lost write-back."""
    content = log.read_bytes()
    log.write_bytes(content[: [position for position, _ in batches(content)][-10]])


def double(log: Path) -> None:
    """The last batch once more, as a retry that was not recognised."""
    content = log.read_bytes()
    position, header = list(batches(content))[-1]
    again = bytearray(content[position:])
    stamp(memoryview(again), 0, header.next_offset, header.partition_leader_epoch)
    log.write_bytes(content + again)


def rewrite(log: Path) -> None:
    """Other values at offsets that were acknowledged."""
    content = log.read_bytes()
    position, header = list(batches(content))[-1]
    count = header.record_count
    values = [f"w{number}{PADDING}".encode() for number in range(count)]
    other = build_batch(
        [(None, value, [], header.base_timestamp) for value in values],
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
    )
    log.write_bytes(content[:position] + other)


@pytest.fixture
def victim() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.mark.parametrize(
    ("sabotage", "counters", "is_inventing"),
    [
        (lambda _: None, set(), False),
        (cut, {"unseen"}, False),
        (double, {"duplicate"}, False),
        (rewrite, {"inconsistent-offsets", "lost-write"}, True),
    ],
    ids=["left alone", "cut", "doubled", "rewritten"],
)
def test_sabotage_is_noticed(
    victim: LocalBroker,
    sabotage: Callable[[Path], None],
    counters: set[str],
    is_inventing: bool,
) -> None:
    history = History()
    create_topic(victim.bootstrap_servers, TOPIC)
    load = ProduceLoad(victim.bootstrap_servers, TOPIC, 1, history, idempotent=False)
    load.start()
    await_acknowledged(history, 2_000)
    load.stop()
    victim.kill()
    sabotage(segments(victim.data, TOPIC, 0)[-1])
    victim.start()
    read_by_librdkafka(victim, TOPIC, 1, history)
    found = {violation.counter for violation in checkers.check(history)}
    assert found == counters
    assert bool(invented(history)) is is_inventing
