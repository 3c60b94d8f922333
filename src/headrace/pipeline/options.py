"""How to reach a log: bootstrap servers and the `kafka.*` options that mean something here.

Owns: their names, defaults and what is refused. Must not know: what is read. Names and meanings
are Kafka's consumer's; one that we have no use for is ignored, as Kafka's clients do. Values are
picklable: they travel into Spark's tasks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.base.errors import UsageError
from headrace.client.cluster import Cluster, parse_addresses

PREFIX = "kafka."
READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"

FETCH_BYTES_MAX = 16 * 1024 * 1024
"""Two such buffers stay in use by a reader; larger ones cost more in fresh pages than they save."""

REQUEST_TIMEOUT_MS = 30_000
API_TIMEOUT_MS = 60_000

_REFUSED: dict[str, str] = {
    "auto.offset.reset": "use startingOffsets instead",
    "enable.auto.commit": "offsets are kept in the checkpoint",
    "key.deserializer": "keys are always bytes",
    "value.deserializer": "values are always bytes",
    "interceptor.classes": "there are no interceptors",
    "partition.assignment.strategy": "partitions become tasks, there is no group to share them",
}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The settings of a reader; `of` makes them from `kafka.*` options."""

    bootstrap_servers: str
    client_id: str = "headrace-pipeline"
    isolation_level: str = READ_COMMITTED
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    retry_timeout_ms: int = API_TIMEOUT_MS
    fetch_bytes_max: int = FETCH_BYTES_MAX
    fetch_wait_ms: int = 500

    @property
    def is_read_committed(self) -> bool:
        return self.isolation_level == READ_COMMITTED

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "LogOptions":
        """From options as Spark's `kafka` source takes them; others than `kafka.*` are left out."""
        given = {
            name.lower().removeprefix(PREFIX): str(value).strip()
            for name, value in options.items()
            if name.lower().startswith(PREFIX)
        }
        servers = given.pop("bootstrap.servers", "")
        if not servers:
            raise UsageError("option kafka.bootstrap.servers is missing: write host:port")
        parse_addresses(servers)
        _refuse(given)
        made = cls(servers)
        for name, (field, parse) in _FIELDS.items():
            if name in given:
                made = replace(made, **{field: parse(PREFIX + name, given[name])})
        return made

    def cluster(self) -> Cluster:
        """A client of that cluster; nothing is asked yet."""
        return Cluster(
            self.bootstrap_servers,
            client_id=self.client_id,
            request_timeout_ms=self.request_timeout_ms,
            retry_timeout_ms=self.retry_timeout_ms,
        )


def _refuse(given: Mapping[str, str]) -> None:
    protocol = given.get("security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise UsageError(
            f"kafka.security.protocol={protocol} is not supported yet: only PLAINTEXT is"
        )
    for name in given:
        if name in _REFUSED:
            raise UsageError(f"option kafka.{name} is not supported: {_REFUSED[name]}")
        if name.startswith(("ssl.", "sasl.")):
            raise UsageError(f"option kafka.{name} is not supported yet: only PLAINTEXT is")


def _text(_: str, value: str) -> str:
    return value


def _isolation(name: str, value: str) -> str:
    if value not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise UsageError(f"option {name} is {READ_COMMITTED} or {READ_UNCOMMITTED}, not {value!r}")
    return value


def _number(low: int, high: int) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        if not value.isdigit() or not low <= int(value) <= high:
            raise UsageError(f"option {name} is a number from {low} to {high}, not {value!r}")
        return int(value)

    return parse


_MS = _number(1, 24 * 3_600_000)
_BYTES = _number(1, 200 * 1024 * 1024)

_FIELDS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "client.id": ("client_id", _text),
    "isolation.level": ("isolation_level", _isolation),
    "request.timeout.ms": ("request_timeout_ms", _MS),
    "default.api.timeout.ms": ("retry_timeout_ms", _MS),
    "fetch.max.bytes": ("fetch_bytes_max", _BYTES),
    "max.partition.fetch.bytes": ("fetch_bytes_max", _BYTES),
    "fetch.max.wait.ms": ("fetch_wait_ms", _MS),
}
