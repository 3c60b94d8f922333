"""The broker's keys and layers."""

import pytest

from headrace.base.broker_config import (
    BROKER_CONFIG,
    BrokerConfig,
    parse_listener,
    validate_dynamic,
)
from headrace.base.config import SAME, ConfigError, UpdateMode
from headrace.base.config_sources import Source
from headrace.base.topic_config import TOPIC_CONFIG


def test_every_default_passes_its_own_rule() -> None:
    for key in BROKER_CONFIG.keys.values():
        if key.default is not None:
            assert key.parse(key.default) == key.default, key.name


def test_every_synonym_of_a_topic_config_is_a_broker_key() -> None:
    for key in TOPIC_CONFIG.keys.values():
        for synonym in key.synonyms:
            assert synonym in BROKER_CONFIG.keys


def test_defaults_that_differ_from_kafkas_say_so() -> None:
    differing = {
        name: key.kafka_default
        for name, key in BROKER_CONFIG.keys.items()
        if key.kafka_default is not SAME
    }
    assert differing["group.initial.rebalance.delay.ms"] == 3000
    assert differing["broker.session.timeout.ms"] == 9000
    assert all(BROKER_CONFIG.keys[name].default != default for name, default in differing.items())


def test_dynamic_layers_go_before_static_ones_and_leave_again() -> None:
    config = BrokerConfig.of({"message.max.bytes": "1000", "num.partitions": "3"})
    changed = config.apply_dynamic({"message.max.bytes": "2000"}, {"message.max.bytes": "3000"})
    assert changed == {"message.max.bytes"}
    assert config["message.max.bytes"] == 3000
    assert config.source("message.max.bytes") is Source.DYNAMIC_BROKER
    assert config.layers("message.max.bytes") == [
        (Source.DYNAMIC_BROKER, 3000),
        (Source.DYNAMIC_CLUSTER, 2000),
        (Source.FLAG, 1000),
        (Source.DEFAULT, 1_048_588),
    ]
    assert config.apply_dynamic({"message.max.bytes": "2000"}, {}) == {"message.max.bytes"}
    assert config["message.max.bytes"] == 2000
    config.apply_dynamic({}, {})
    assert config["message.max.bytes"] == 1000
    assert config.source("message.max.bytes") is Source.FLAG


def test_what_can_not_change_stays_even_if_the_log_says_so() -> None:
    config = BrokerConfig.of()
    assert config.apply_dynamic({"node.id": "9", "no.such.key": "1"}, {}) == set()
    assert config["node.id"] == 1


def test_node_id_by_its_older_name() -> None:
    assert BrokerConfig.of({"broker.id": "7"}).node_id == 7
    assert BrokerConfig.of({"broker.id": "7", "node.id": "3"}).node_id == 3
    assert BrokerConfig.of().node_id == 1


def test_log_dirs_fall_back_to_log_dir() -> None:
    assert BrokerConfig.of({"log.dirs": "a,b", "log.dir": "c"}).log_dirs == ("a", "b")
    one = BrokerConfig.of({"log.dir": "c"})
    assert one.log_dirs == ("c",)
    assert one.metadata_log_dir == "c"
    assert BrokerConfig.of({"metadata.log.dir": "m", "log.dir": "c"}).metadata_log_dir == "m"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("PLAINTEXT://127.0.0.1:9092", ("PLAINTEXT", "127.0.0.1", 9092)),
        ("plaintext://:0", ("PLAINTEXT", "", 0)),
        ("INSIDE://[::1]:9093", ("INSIDE", "::1", 9093)),
    ],
)
def test_listeners(text: str, parsed: tuple[str, str, int]) -> None:
    assert parse_listener("listeners", text) == parsed


@pytest.mark.parametrize("text", ["localhost:9092", "X://host", "X://host:port", "X://h:70000"])
def test_bad_listeners(text: str) -> None:
    with pytest.raises(ConfigError, match="not NAME://host:port"):
        BrokerConfig.of({"listeners": text})


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ({"listeners": ""}, "listeners"),
        ({"listeners": "A://:1,A://:2"}, "listeners"),
        ({"advertised.listeners": "OTHER://h:1"}, "advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"group.min.session.timeout.ms": "2000000"}, "group.min.session.timeout.ms"),
        ({"broker.heartbeat.interval.ms": "2000"}, "broker.heartbeat.interval.ms"),
    ],
)
def test_keys_that_do_not_go_together(flags: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.of(flags)
    assert caught.value.key == key


def test_what_may_be_altered_while_a_broker_runs() -> None:
    assert validate_dynamic("log.retention.ms", "5", per_broker=False).dynamic
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    assert validate_dynamic(rate, "5", per_broker=True).dynamic
    for name, text, per_broker, reason in (
        ("node.id", "5", True, "Cannot update these configs dynamically"),
        (rate, "5", False, "only be set per broker"),
        ("no.such.key", "1", True, "Unknown broker config name"),
        ("log.retention.ms", "soon", False, "not a number"),
    ):
        with pytest.raises(ConfigError, match=reason):
            validate_dynamic(name, text, per_broker=per_broker)


def test_what_would_have_no_effect_is_refused_as_read_only() -> None:
    idle = [key for key in BROKER_CONFIG.keys.values() if not key.honoured]
    assert [key.name for key in idle if key.dynamic] == []
    for name, text in (
        ("num.replica.fetchers", "4"),
        ("num.io.threads", "4"),
        ("listener.security.protocol.map", "A:PLAINTEXT"),
        ("listeners", "A://h:1"),
    ):
        with pytest.raises(ConfigError, match="Cannot update these configs dynamically"):
            validate_dynamic(name, text, per_broker=True)


def test_keys_without_effect_are_marked() -> None:
    assert not BROKER_CONFIG.keys["num.io.threads"].honoured
    assert BROKER_CONFIG.keys["log.segment.bytes"].honoured
    assert BROKER_CONFIG.keys["log.segment.bytes"].update_mode is UpdateMode.CLUSTER_WIDE
