"""Three thousand partitions seen through kio: every version of Metadata, and the disk below."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.wire.batches import good_batch
from tests.wire.conftest import Target, await_leader
from tests.wire.raw import Connection
from tests.wire.serving import GOOD_TOPIC, produce

PARTITIONS = 3_000
SMALL_TOPICS = 50
MANY = "many"
VERSIONS = range(14)


@pytest.fixture(scope="module")
def connection(target: Target) -> Iterator[Connection]:
    small = [
        {"name": f"small-{number}", "num_partitions": 2, "replication_factor": 1}
        for number in range(SMALL_TOPICS)
    ]
    many = {"name": MANY, "num_partitions": PARTITIONS, "replication_factor": 1}
    with Connection(target.address, timeout_s=30) as connection:
        created = connection.call("create_topics", 5, topics=[many, *small], timeout=30_000)
        assert {int(topic.error_code) for topic in created.topics} == {0}
        await_leader(connection, MANY, timeout_s=30)
        yield connection


def folders(target: Target, topic: str) -> list[Path]:
    return [path for path in target.data.rglob(f"{topic}-*") if path.is_dir()]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_in_every_version(connection: Connection, version: int) -> None:
    for _ in range(2):  # encoded anew, and as it was encoded then
        answer = connection.call("metadata", version, topics=() if version == 0 else None)
        found = {topic.name: topic for topic in answer.topics}
        assert set(found) >= {MANY, *(f"small-{number}" for number in range(SMALL_TOPICS))}
        many = sorted(found[MANY].partitions, key=lambda row: row.partition_index)
        assert [row.partition_index for row in many] == list(range(PARTITIONS))
        (broker,) = answer.brokers
        for row in many:
            assert (int(row.error_code), row.leader_id) == (0, broker.node_id)
            assert list(row.replica_nodes) == list(row.isr_nodes) == [broker.node_id]
        if version >= 5:
            assert not any(row.offline_replicas for row in many)
        if version >= 10:
            assert len({topic.topic_id for topic in found.values()}) == len(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_some_topics_and_unknown_ones(connection: Connection, version: int) -> None:
    names = ["small-7", "missing", "small-8", "small-7"]
    values = {} if version < 4 else {"allow_auto_topic_creation": False}
    if version < 4:
        names.remove("missing")  # it would be created
    answer = connection.call(
        "metadata", version, topics=[{"name": name} for name in names], **values
    )
    errors = {topic.name: int(topic.error_code) for topic in answer.topics}
    assert errors == {"small-7": 0, "small-8": 0, **({"missing": 3} if version >= 4 else {})}


def test_a_change_shows_at_once(target: Target, connection: Connection) -> None:
    before = connection.call("metadata", 12, topics=None)
    deleted = connection.call("delete_topics", 5, topic_names=["small-0"], timeout=10_000)
    assert int(deleted.responses[0].error_code) == 0
    grown = connection.call(
        "create_partitions", 3, topics=[{"name": "small-1", "count": 5}], timeout=10_000
    )
    assert int(grown.results[0].error_code) == 0
    expected = shape_of(before) | {"small-1": 5}
    assert expected.pop("small-0") == 2
    assert eventually(
        target, lambda: shape_of(connection.call("metadata", 12, topics=None)) == expected
    )


def test_partitions_have_folders_once_they_are_used(target: Target, connection: Connection) -> None:
    if not target.is_control:
        assert folders(target, MANY) == []
    assert eventually(target, lambda: offsets_of(connection, range(100)) == {(0, 0)})
    assert produce(connection, good_batch(b"first"), MANY, 2_999).error_code == 0
    if not target.is_control:
        assert [path.name for path in folders(target, MANY)] == [f"{MANY}-2999"]
    assert produce(connection, good_batch(b"still here"), GOOD_TOPIC).error_code == 0


def shape_of(answer: Any) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in answer.topics}


def offsets_of(connection: Connection, indexes: range) -> set[tuple[int, int]]:
    """Errors and end offsets."""
    rows = [
        {"partition_index": index, "current_leader_epoch": -1, "timestamp": -1} for index in indexes
    ]
    answer = connection.call(
        "list_offsets", 5, replica_id=-1, topics=[{"name": MANY, "partitions": rows}]
    )
    return {(int(row.error_code), row.offset) for row in answer.topics[0].partitions}


def eventually(target: Target, reached: Callable[[], bool], timeout_s: float = 60.0) -> bool:
    """Kafka answers first and lets its brokers know later; ours knows when it answers."""
    deadline_s = time.monotonic() + timeout_s
    while not reached():
        if not target.is_control or time.monotonic() > deadline_s:
            return False
        time.sleep(0.1)
    return True
