"""One broker's effective configuration: what it started with, and what was altered since.

Owns: the static values with their sources, the two dynamic layers (per broker over
cluster-wide, KIP-226), and the topic defaults that follow from them.
Must not know: where dynamic values are stored (`cluster.configs`), files, processes.

Invariants: dynamic layers hold dynamic keys only; a per-broker value goes before a cluster-wide
one, both go before flag, environment and file.
"""

from collections.abc import Mapping
from typing import Any

from headrace.base.broker_keys import BROKER_CONFIG
from headrace.base.config import ConfigError, ConfigKey, UpdateMode
from headrace.base.config_sources import Resolved, Source, resolve
from headrace.base.topic_config import TopicConfig

__all__ = [
    "BROKER_CONFIG",
    "BrokerConfig",
    "parse_address",
    "parse_listener",
    "parse_voter",
    "validate_dynamic",
]

BROKER_ROLE, CONTROLLER_ROLE = "broker", "controller"


class BrokerConfig:
    """`config["log.segment.bytes"]` is the typed value in force."""

    __slots__ = ("_dynamic_broker", "_dynamic_cluster", "_given", "_static", "values")

    def __init__(self, static: Resolved) -> None:
        self._static = static
        self._dynamic_cluster: dict[str, Any] = {}
        self._dynamic_broker: dict[str, Any] = {}
        self._given: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        self.values: dict[str, Any] = dict(static.values)
        """Replaced, never changed: who derives something from it may keep that as long."""
        _check_together(self.values)

    @classmethod
    def of(
        cls,
        flags: Mapping[str, Any] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        file: Mapping[str, Any] | None = None,
    ) -> "BrokerConfig":
        return cls(resolve(BROKER_CONFIG, flags=flags, environment=environment, file=file))

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def source(self, name: str) -> Source:
        if name in self._dynamic_broker:
            return Source.DYNAMIC_BROKER
        if name in self._dynamic_cluster:
            return Source.DYNAMIC_CLUSTER
        return self._static.sources[name]

    def layers(self, name: str) -> list[tuple[Source, Any]]:
        """All that speak of a key, the one in force first: DescribeConfigs' synonyms."""
        found: list[tuple[Source, Any]] = []
        if name in self._dynamic_broker:
            found.append((Source.DYNAMIC_BROKER, self._dynamic_broker[name]))
        if name in self._dynamic_cluster:
            found.append((Source.DYNAMIC_CLUSTER, self._dynamic_cluster[name]))
        static = self._static.sources[name]
        if static is not Source.DEFAULT:
            found.append((static, self._static.values[name]))
        default = BROKER_CONFIG.keys[name].default
        if default is not None:
            found.append((Source.DEFAULT, default))
        return found

    def apply_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> set[str]:
        """Take over the altered values; the names whose value in force changed are returned.

        The values were accepted before they were written; a key that this version does not
        know or does not let change is left alone.
        """
        if self._given == (cluster, broker):
            return set()
        self._given = (dict(cluster), dict(broker))
        self._dynamic_cluster = _dynamic_values(cluster)
        self._dynamic_broker = _dynamic_values(broker)
        before = self.values
        self.values = {
            **self._static.values,
            **self._dynamic_cluster,
            **self._dynamic_broker,
        }
        return {name for name, value in self.values.items() if before[name] != value}

    def without_effect(self) -> list[str]:
        """Keys that somebody set and that change nothing here."""
        return [
            name
            for name, key in BROKER_CONFIG.keys.items()
            if not key.honoured and self._static.sources[name] is not Source.DEFAULT
        ]

    def topic(self, overrides: Mapping[str, str]) -> TopicConfig:
        """A topic's effective configuration on this broker."""
        return TopicConfig.of(overrides, self.values)

    # The keys that code asks for by the thousand or that need a decision.

    @property
    def node_id(self) -> int:
        node_id: int = self.values["node.id"]
        older: int = self.values["broker.id"]
        given = self._static.sources["node.id"] is not Source.DEFAULT
        return node_id if given or older < 0 else older

    @property
    def listeners(self) -> tuple[tuple[str, str, int], ...]:
        """(name, host, port); an empty host is every interface."""
        return tuple(parse_listener("listeners", text) for text in self.values["listeners"])

    @property
    def advertised_listeners(self) -> tuple[tuple[str, str, int], ...]:
        texts = self.values["advertised.listeners"]
        if texts is None:
            return self.listeners
        return tuple(parse_listener("advertised.listeners", text) for text in texts)

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(self.values["process.roles"])

    @property
    def is_broker(self) -> bool:
        return BROKER_ROLE in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER_ROLE in self.roles

    @property
    def controller_listener_name(self) -> str:
        """The one that controllers use among themselves: the first, as with Kafka."""
        return str(self.values["controller.listener.names"][0]).upper()

    @property
    def broker_listeners(self) -> tuple[tuple[str, str, int], ...]:
        """Those for clients."""
        controllers = _controller_listener_names(self.values)
        return tuple(each for each in self.listeners if each[0] not in controllers)

    @property
    def controller_listeners(self) -> tuple[tuple[str, str, int], ...]:
        controllers = _controller_listener_names(self.values)
        return tuple(each for each in self.listeners if each[0] in controllers)

    @property
    def quorum_voters(self) -> tuple[tuple[int, str, int], ...]:
        """(id, host, port) of a fixed quorum; empty where it is not fixed."""
        return tuple(parse_voter(text) for text in self.values["controller.quorum.voters"])

    @property
    def quorum_bootstrap_servers(self) -> tuple[tuple[str, int], ...]:
        key = "controller.quorum.bootstrap.servers"
        return tuple(parse_address(key, text) for text in self.values[key])

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return tuple(self.values["log.dirs"] or self.values["log.dir"] or ())

    @property
    def metadata_log_dir(self) -> str | None:
        chosen: str | None = self.values["metadata.log.dir"]
        return chosen or next(iter(self.log_dirs), None)

    @property
    def auto_create_topics_enable(self) -> bool:
        return bool(self.values["auto.create.topics.enable"])

    @property
    def num_partitions(self) -> int:
        return int(self.values["num.partitions"])

    @property
    def default_replication_factor(self) -> int:
        return int(self.values["default.replication.factor"])

    @property
    def socket_request_max_bytes(self) -> int:
        return int(self.values["socket.request.max.bytes"])


def parse_listener(key: str, text: str) -> tuple[str, str, int]:
    """`NAME://host:port`, with IPv6 hosts in brackets."""
    name, mark, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not (name and mark and colon and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(
            key, f"Invalid value {text} for configuration {key}: not NAME://host:port"
        )
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return name.upper(), host, int(port)


def parse_address(key: str, text: str) -> tuple[str, int]:
    """`host:port`, with IPv6 hosts in brackets."""
    _, host, port = parse_listener(key, f"ANY://{text.strip()}")
    if not host or not port:
        raise ConfigError(key, f"Invalid value {text} for configuration {key}: not host:port")
    return host, port


def parse_voter(text: str) -> tuple[int, str, int]:
    """`id@host:port`."""
    key = "controller.quorum.voters"
    node_id, mark, address = text.strip().partition("@")
    if not mark or not (node_id.isascii() and node_id.isdigit()):
        raise ConfigError(key, f"Invalid value {text} for configuration {key}: not id@host:port")
    return int(node_id), *parse_address(key, address)


def validate_dynamic(name: str, text: str | None, *, per_broker: bool) -> ConfigKey:
    """Refuse what can't be altered while a broker runs. Raises ConfigError."""
    key = BROKER_CONFIG.key(name)
    if key.update_mode is UpdateMode.READ_ONLY:
        raise ConfigError(
            name, f"Cannot update these configs dynamically: {name} is read when the broker starts"
        )
    if key.update_mode is UpdateMode.PER_BROKER and not per_broker:
        raise ConfigError(name, f"{name} can only be set per broker, not as a cluster-wide default")
    if text is not None:
        value = key.parse(text)
        if name == "listeners":
            for listener in value:
                parse_listener(name, listener)
    return key


def _dynamic_values(raw: Mapping[str, str]) -> dict[str, Any]:
    known = BROKER_CONFIG.keys
    return {
        name: known[name].parse(text)
        for name, text in raw.items()
        if name in known and known[name].dynamic
    }


def _check_together(values: Mapping[str, Any]) -> None:
    """Rules that bind two keys, and texts with an inner form."""
    if values["authorizer.class.name"]:
        raise ConfigError(
            "authorizer.class.name",
            "nothing is authorized yet: with an authorizer named here people would rely on it",
        )
    names = [parse_listener("listeners", text)[0] for text in values["listeners"]]
    if not names:
        raise ConfigError("listeners", "listeners must name at least one address")
    if len(set(names)) != len(names):
        raise ConfigError("listeners", "each listener must have a name of its own")
    for text in values["advertised.listeners"] or ():
        name, host, _ = parse_listener("advertised.listeners", text)
        if name not in names:
            raise ConfigError("advertised.listeners", f"no listener is named {name}")
        if host in ("", "0.0.0.0", "::"):
            raise ConfigError(
                "advertised.listeners", f"clients can't connect to {text}: give a host they know"
            )
    _check_roles(values, names)
    _check_cordoned(values)
    if values["group.min.session.timeout.ms"] > values["group.max.session.timeout.ms"]:
        raise ConfigError(
            "group.min.session.timeout.ms", "must not be above group.max.session.timeout.ms"
        )
    _check_consumer_groups(values)
    if values["broker.heartbeat.interval.ms"] * 2 > values["broker.session.timeout.ms"]:
        raise ConfigError(
            "broker.heartbeat.interval.ms", "must be at most half of broker.session.timeout.ms"
        )


def _check_cordoned(values: Mapping[str, Any]) -> None:
    own = values["log.dirs"] or values["log.dir"] or ()
    for path in values["cordoned.log.dirs"] or ():
        if path != "*" and path not in own:
            raise ConfigError("cordoned.log.dirs", f"{path} is not one of log.dirs")


def _check_consumer_groups(values: Mapping[str, Any]) -> None:
    for what in ("session.timeout", "heartbeat.interval", "assignment.interval"):
        key = f"group.consumer.{what}.ms"
        low, high = (f"group.consumer.{end}.{what}.ms" for end in ("min", "max"))
        if not values[low] <= values[key] <= values[high]:
            raise ConfigError(key, f"must be between {low} and {high}")
    if (
        values["group.consumer.heartbeat.interval.ms"]
        >= values["group.consumer.session.timeout.ms"]
    ):
        raise ConfigError(
            "group.consumer.heartbeat.interval.ms",
            "must be less than group.consumer.session.timeout.ms",
        )


def _controller_listener_names(values: Mapping[str, Any]) -> set[str]:
    return {str(name).upper() for name in values["controller.listener.names"]}


def _check_roles(values: Mapping[str, Any], names: list[str]) -> None:
    """Kafka's rules for who listens where and who finds the quorum how."""
    roles = set(values["process.roles"])
    if not values["controller.listener.names"]:
        raise ConfigError("controller.listener.names", "must name the controllers' listener")
    controllers = _controller_listener_names(values)
    voters = [parse_voter(text) for text in values["controller.quorum.voters"]]
    servers = values["controller.quorum.bootstrap.servers"]
    for text in servers:
        parse_address("controller.quorum.bootstrap.servers", text)
    if len({voter[0] for voter in voters}) != len(voters):
        raise ConfigError("controller.quorum.voters", "each voter has an id of its own")
    if roles == {BROKER_ROLE}:
        if controllers.intersection(names):
            raise ConfigError(
                "listeners", "a node that is only a broker has no controller listener"
            )
        if not voters and not servers:
            raise ConfigError(
                "controller.quorum.bootstrap.servers",
                "a node that is only a broker must be told where the controllers are",
            )
    if roles == {CONTROLLER_ROLE} and set(names) - controllers:
        raise ConfigError(
            "listeners",
            "a node that is only a controller listens on "
            f"{', '.join(sorted(controllers))} alone, such as CONTROLLER://127.0.0.1:9093",
        )
    if BROKER_ROLE in roles and not set(names) - controllers:
        raise ConfigError("listeners", "a broker needs a listener for its clients")
    if CONTROLLER_ROLE in roles and (voters or servers) and not controllers.intersection(names):
        raise ConfigError(
            "listeners",
            f"a controller of a quorum listens on one of {', '.join(sorted(controllers))}",
        )
