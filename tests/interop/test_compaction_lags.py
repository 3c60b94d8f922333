"""When a compacted log is cleaned, and what it forgets in time, as a librdkafka reader sees it.

Records carry their own timestamps, hours of the past and minutes of the future, so that segments
roll and lags pass by what is written and not by waiting. Each rule has a twin of a topic that
differs in the one setting and fares otherwise.
"""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from tests.interop.confluent import TIMEOUT_S, consumer_of, create_topic, producer_of
from tests.interop.conftest import Target, start_target
from tests.interop.nodes import until
from tests.interop.test_compaction import records_of, until_clean

HOUR_S, MINUTE_S = 3600, 60
COMPACT = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "60000",  # a record that is a minute newer begins another segment
}
NEVER_DIRTY_ENOUGH = {**COMPACT, "min.cleanable.dirty.ratio": "1.0"}
KEYS = [b"k%d" % number for number in range(5)]
FIRST = [(key, b"first") for key in KEYS]
LAST = [(key, b"last") for key in KEYS]
NOW = (b"now", b"0")

Records = list[tuple[bytes, bytes | None]]


@pytest.fixture(scope="module")
def broker(target_name: str) -> Iterator[Target]:
    settings = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "100"}
    with start_target(target_name, **settings) as started:
        yield started


def write(broker: Target, topic: str, *rounds: tuple[int, Records]) -> None:
    """Each round at so many seconds from now."""
    producer = producer_of(broker.bootstrap_servers)
    for delta_s, records in rounds:
        timestamp_ms = int((time.time() + delta_s) * 1000)
        for key, value in records:
            producer.produce(topic, value, key, timestamp=timestamp_ms)
        assert producer.flush(TIMEOUT_S) == 0


def written(broker: Target, topic: str, config: dict[str, str]) -> None:
    """Two values of each key, two hours old, in a segment that is closed."""
    create_topic(broker.bootstrap_servers, topic, config=config)
    write(broker, topic, (-2 * HOUR_S, FIRST + LAST), (0, [NOW]))


def test_a_log_is_cleaned_once_its_records_are_old_enough(broker: Target) -> None:
    """`min.compaction.lag.ms`: younger records are kept, older ones are not."""
    written(broker, "young", {**COMPACT, "min.compaction.lag.ms": str(3 * HOUR_S * 1000)})
    written(broker, "old", {**COMPACT, "min.compaction.lag.ms": str(HOUR_S * 1000)})
    until_clean(broker, "old")
    assert records_of(broker, "old") == [*LAST, NOW]
    assert records_of(broker, "young") == [*FIRST, *LAST, NOW]


def test_a_log_is_cleaned_when_its_records_are_too_old_to_wait(broker: Target) -> None:
    """`max.compaction.lag.ms`: cleaned, and its segment closed, however little of it is dirty."""
    written(broker, "patient", NEVER_DIRTY_ENOUGH)
    forced = {**NEVER_DIRTY_ENOUGH, "max.compaction.lag.ms": str(HOUR_S * 1000)}
    forced["segment.ms"] = str(30 * 24 * HOUR_S * 1000)
    written(broker, "forced", forced)
    until_clean(broker, "forced")
    assert records_of(broker, "forced") == [*LAST, NOW]
    assert records_of(broker, "patient") == [*FIRST, *LAST, NOW]


def test_tombstones_go_when_readers_have_had_their_time(broker: Target) -> None:
    """`delete.retention.ms`, counted from the cleaning that met them first."""
    gone: Records = [(key, None) for key in KEYS[:3]]
    stays = [(key, b"last") for key in KEYS[3:]]
    configs = {"forgetful": {**COMPACT, "delete.retention.ms": "1"}, "mindful": COMPACT}
    for topic, config in configs.items():
        create_topic(broker.bootstrap_servers, topic, config=config)
        write(broker, topic, (-2 * HOUR_S, FIRST + stays + gone), (0, [NOW]))
    for topic in configs:
        until_clean(broker, topic)
        assert records_of(broker, topic) == [*stays, *gone, NOW], "a reader can still be told"
    for topic in configs:
        write(broker, topic, (10 * MINUTE_S, [(b"later", b"0")]))
        until_clean(broker, topic)
    assert records_of(broker, "forgetful") == [*stays, NOW, (b"later", b"0")]
    assert records_of(broker, "mindful") == [*stays, *gone, NOW, (b"later", b"0")]


def test_a_log_is_cleaned_and_cut_off(broker: Target) -> None:
    """`compact,delete`: whole segments go by age, what stays is compacted."""
    topic, servers = "both", broker.bootstrap_servers
    config = {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": str(HOUR_S * 1000)}
    create_topic(servers, topic, config=config)
    ancient = [(b"ancient-%d" % number, b"0") for number in range(5)]
    write(broker, topic, (-2 * HOUR_S, ancient), (0, FIRST + LAST))
    reader = consumer_of(servers, "watermarks")

    def low() -> int:
        found: int = reader.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)[0]
        return found

    until(lambda: low() == len(ancient))
    reader.close()
    assert records_of(broker, topic) == [*FIRST, *LAST], "old keys are gone, though the only ones"
    write(broker, topic, (10 * MINUTE_S, [NOW]))
    until_clean(broker, topic)
    assert records_of(broker, topic) == [*LAST, NOW]
