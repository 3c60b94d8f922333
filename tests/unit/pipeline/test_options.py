"""`kafka.*` options: what is taken, and the sentences that refuse the rest."""

import pickle

import pytest

from headrace.base.errors import UsageError
from headrace.pipeline.options import LogOptions

SERVERS = {"kafka.bootstrap.servers": "a:1,b:2"}


def test_defaults_read_only_what_was_committed() -> None:
    options = LogOptions.of(SERVERS)
    assert options.bootstrap_servers == "a:1,b:2"
    assert options.is_read_committed
    assert pickle.loads(pickle.dumps(options)) == options


def test_options_have_kafkas_names_in_any_case() -> None:
    options = LogOptions.of(
        {
            "Kafka.Bootstrap.Servers": "a:1",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.client.id": "me",
            "kafka.request.timeout.ms": "7",
            "kafka.default.api.timeout.ms": "8",
            "kafka.max.partition.fetch.bytes": "9",
            "kafka.group.id": "ignored",
            "subscribe": "ignored",
        }
    )
    assert options == LogOptions(
        "a:1",
        client_id="me",
        isolation_level="read_uncommitted",
        request_timeout_ms=7,
        retry_timeout_ms=8,
        fetch_bytes_max=9,
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "nowhere"}, "not an address"),
        (SERVERS | {"kafka.security.protocol": "SASL_SSL"}, "SASL_SSL is not supported yet"),
        (SERVERS | {"kafka.sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism is not supported"),
        (SERVERS | {"kafka.ssl.truststore.location": "x"}, "only PLAINTEXT"),
        (SERVERS | {"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        (SERVERS | {"kafka.enable.auto.commit": "true"}, "checkpoint"),
        (SERVERS | {"kafka.isolation.level": "dirty"}, "read_committed or read_uncommitted"),
        (SERVERS | {"kafka.request.timeout.ms": "soon"}, "a number from 1"),
        (SERVERS | {"kafka.fetch.max.bytes": "0"}, "a number from 1"),
    ],
)
def test_what_is_refused_says_why(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        LogOptions.of(given)


def test_plaintext_may_be_said() -> None:
    assert LogOptions.of(SERVERS | {"kafka.security.protocol": "PLAINTEXT"}) == LogOptions(
        "a:1,b:2"
    )
