"""A good client, to ask a broker after each attack whether it still does its work."""

from typing import Any

from tests.wire.batches import good_batch
from tests.wire.raw import Address, Connection

GOOD_TOPIC = "good"
PRODUCE_VERSION = 9
FETCH_VERSION = 11


def produce(
    connection: Connection,
    records: bytes | None,
    topic: str = GOOD_TOPIC,
    partition: int = 0,
    acks: int = 1,
    **values: Any,
) -> Any:
    """Produce to one partition; its part of the response."""
    answer = connection.call(
        "produce", PRODUCE_VERSION, **produce_body(records, topic, partition, acks), **values
    )
    return answer.responses[0].partition_responses[0]


def produce_body(
    records: bytes | None, topic: str = GOOD_TOPIC, partition: int = 0, acks: int = 1
) -> dict[str, Any]:
    data = {"index": partition, "records": records}
    return {
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [{"name": topic, "partition_data": [data]}],
    }


def fetch_body(
    offset: int, topic: str = GOOD_TOPIC, partition: int = 0, max_wait_ms: int = 500
) -> dict[str, Any]:
    wanted = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    return {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
    }


def assert_serves(address: Address, value: bytes = b"still here") -> None:
    """On a fresh connection: a record goes in and comes out."""
    with Connection(address) as connection:
        produced = produce(connection, good_batch(value), partition=1)
        assert produced.error_code == 0
        body = fetch_body(produced.base_offset, partition=1)
        fetched = connection.call("fetch", FETCH_VERSION, **body).responses[0].partitions[0]
        assert fetched.error_code == 0
        assert value in bytes(fetched.records)
