"""The 34 topic configs against what Kafka 4.3's LogConfig said of each value."""

import pytest

from headrace.base.broker_config import BrokerConfig
from headrace.base.config import ConfigError
from headrace.base.topic_config import TOPIC_CONFIG, TopicConfig, validate_topic_configs

KAFKA_DEFAULTS = {
    "cleanup.policy": ("delete",),
    "compression.gzip.level": -1,
    "compression.lz4.level": 9,
    "compression.type": "producer",
    "compression.zstd.level": 3,
    "delete.retention.ms": 86400000,
    "file.delete.delay.ms": 60000,
    "flush.messages": 9223372036854775807,
    "flush.ms": 9223372036854775807,
    "follower.replication.throttled.replicas": (),
    "index.interval.bytes": 4096,
    "internal.segment.bytes": None,
    "leader.replication.throttled.replicas": (),
    "local.retention.bytes": -2,
    "local.retention.ms": -2,
    "max.compaction.lag.ms": 9223372036854775807,
    "max.message.bytes": 1048588,
    "message.timestamp.after.max.ms": 3600000,
    "message.timestamp.before.max.ms": 9223372036854775807,
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": 0.5,
    "min.compaction.lag.ms": 0,
    "min.insync.replicas": 1,
    "preallocate": False,
    "remote.log.copy.disable": False,
    "remote.log.delete.on.disable": False,
    "remote.storage.enable": False,
    "retention.bytes": -1,
    "retention.ms": 604800000,
    "segment.bytes": 1073741824,
    "segment.index.bytes": 10485760,
    "segment.jitter.ms": 0,
    "segment.ms": 604800000,
    "unclean.leader.election.enable": False,
}


def test_names_and_defaults_are_kafkas() -> None:
    assert {name: key.default for name, key in TOPIC_CONFIG.keys.items()} == KAFKA_DEFAULTS


def test_every_key_is_documented() -> None:
    assert all(len(key.doc) > 10 for key in TOPIC_CONFIG.keys.values())


def test_a_topic_without_overrides_has_the_defaults_on_a_broker_without_settings() -> None:
    assert TopicConfig.of({}, BrokerConfig.of().values) == TopicConfig() == TopicConfig.of({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("cleanup.policy", " delete , compact"),
        ("retention.ms", " 5 "),
        ("retention.bytes", "-5"),
        ("preallocate", "TRUE"),
        ("compression.gzip.level", "-1"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("leader.replication.throttled.replicas", ""),
        ("min.compaction.lag.ms", "9223372036854775807"),
        ("internal.segment.bytes", "100"),
    ],
)
def test_values_that_kafka_takes(name: str, value: str) -> None:
    validate_topic_configs({name: value})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("foo", "1", "Unknown topic config name: foo"),
        ("cleanup.policy", "foo", "'foo' is not one of: compact, delete"),
        ("cleanup.policy", "delete,", "'' is not one of"),
        ("retention.ms", "x", "not a number of type LONG"),
        ("retention.ms", "", "not a number of type LONG"),
        ("retention.ms", "-2", "value must be at least -1"),
        ("retention.ms", "1.5", "not a number of type LONG"),
        ("retention.ms", "99999999999999999999", "not a number of type LONG"),
        ("retention.ms", None, "Null value not supported"),
        ("segment.bytes", "10", "value must be at least 1048576"),
        ("preallocate", "yes", "expected true or false"),
        ("min.cleanable.dirty.ratio", "2", "value must be no more than 1"),
        ("compression.type", "GZIP", "value must be one of: uncompressed"),
        ("compression.type", "none", "value must be one of: uncompressed"),
        ("compression.gzip.level", "0", "value must be at least 1"),
        ("leader.replication.throttled.replicas", "x", "'x' is not partition:broker"),
        ("message.timestamp.type", "createtime", "value must be one of"),
        ("max.compaction.lag.ms", "0", "value must be at least 1"),
        ("min.insync.replicas", "0", "value must be at least 1"),
        ("remote.storage.enable", "true", "tiered storage is not enabled"),
    ],
)
def test_values_that_kafka_refuses(name: str, value: str | None, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_configs({name: value})
    assert reason in caught.value.reason


def test_lags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="must not be above"):
        validate_topic_configs({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize(
    ("flags", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finer_retention_key_wins(flags: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig.of(flags).topic({}).retention_ms == retention_ms


def test_a_topics_own_value_goes_before_the_brokers() -> None:
    config = BrokerConfig.of({"log.segment.bytes": "2097152", "log.roll.hours": "2"})
    topic = config.topic({"segment.bytes": "1048576", "cleanup.policy": "compact,delete"})
    assert topic.segment_bytes == 1_048_576
    assert topic.segment_ms == 7_200_000
    assert topic.compacted
    assert topic.deleted


def test_the_tests_segment_size_goes_before_the_users() -> None:
    assert TopicConfig.of({"internal.segment.bytes": "100"}).segment_size_bytes == 100
    assert TopicConfig().segment_size_bytes == 2**30
