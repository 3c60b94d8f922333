"""A resource's configs as clients are shown them: value, source, synonyms, type and words.

Owns: `ConfigEntry` and how it follows from overrides and a broker's layers, for DescribeConfigs
and for the configs in a CreateTopics response.
Must not know: requests, who may see what.
Spec: Kafka's ConfigHelper; the source numbers of DescribeConfigs (KIP-226).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from headrace.base.broker_config import BROKER_CONFIG, BrokerConfig
from headrace.base.client_metrics_config import CLIENT_METRICS_CONFIG
from headrace.base.config import ConfigKey, format_value
from headrace.base.config_sources import Source
from headrace.base.group_config import GROUP_CONFIG
from headrace.base.topic_config import TOPIC_CONFIG, from_synonym, synonym_in_force


class WireSource(IntEnum):
    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


_WIRE_SOURCES = {
    Source.DEFAULT: WireSource.DEFAULT,
    Source.FILE: WireSource.STATIC_BROKER,
    Source.ENVIRONMENT: WireSource.STATIC_BROKER,
    Source.FLAG: WireSource.STATIC_BROKER,
    Source.DYNAMIC_CLUSTER: WireSource.DYNAMIC_DEFAULT_BROKER,
    Source.DYNAMIC_BROKER: WireSource.DYNAMIC_BROKER,
}


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: WireSource


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: WireSource
    read_only: bool
    sensitive: bool
    type: int
    doc: str
    synonyms: tuple[Synonym, ...]


def topic_config_entries(overrides: Mapping[str, str], config: BrokerConfig) -> list[ConfigEntry]:
    """Every config of a topic. Internal keys are shown only where they are set."""
    return [
        _own_entry(key, overrides, config, WireSource.TOPIC)
        for name, key in sorted(TOPIC_CONFIG.keys.items())
        if name in overrides or not key.internal
    ]


def group_config_entries(overrides: Mapping[str, str], config: BrokerConfig) -> list[ConfigEntry]:
    """Every config of a group, whether the group exists or not."""
    return [
        _own_entry(key, overrides, config, WireSource.GROUP)
        for _, key in sorted(GROUP_CONFIG.keys.items())
    ]


def broker_config_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Every config of the broker that is asked."""
    return [
        _entry(key, config[name], _broker_synonyms(name, config), read_only=not key.dynamic)
        for name, key in sorted(BROKER_CONFIG.keys.items())
    ]


def client_metrics_entries(values: Mapping[str, str]) -> list[ConfigEntry]:
    """Every config of a subscription that has any."""
    entries = []
    for name, key in sorted(CLIENT_METRICS_CONFIG.keys.items()):
        is_set = name in values
        value = values[name] if is_set else key.default
        source = WireSource.CLIENT_METRICS if is_set else WireSource.DEFAULT
        synonym = Synonym(name, _shown(key, value), source)
        entries.append(_entry(key, value, (synonym,), read_only=False))
    return entries


def default_broker_entries(cluster_wide: Mapping[str, str]) -> list[ConfigEntry]:
    """The cluster-wide defaults that were set: what Kafka shows of the broker without a name."""
    entries = []
    for name, value in sorted(cluster_wide.items()):
        key = BROKER_CONFIG.keys.get(name)
        if key is not None:
            synonym = Synonym(name, _shown(key, value), WireSource.DYNAMIC_DEFAULT_BROKER)
            entries.append(_entry(key, value, (synonym,), read_only=not key.dynamic))
    return entries


def _own_entry(
    key: ConfigKey, overrides: Mapping[str, str], config: BrokerConfig, source: WireSource
) -> ConfigEntry:
    synonyms: list[Synonym] = []
    value: Any
    if key.name in overrides:
        value = overrides[key.name]
        synonyms.append(Synonym(key.name, _shown(key, value), source))
    else:
        synonym = synonym_in_force(key, config.values)
        value = key.default if synonym is None else from_synonym(synonym, config[synonym])
    for synonym in key.synonyms:
        synonyms += _broker_synonyms(synonym, config)
    if not key.synonyms and source is WireSource.GROUP:
        # As Kafka shows it: of a group, even where the broker has no word for it.
        synonyms.append(Synonym(key.name, _shown(key, key.default), WireSource.DEFAULT))
    return _entry(key, value, tuple(synonyms), read_only=False)


def _broker_synonyms(name: str, config: BrokerConfig) -> tuple[Synonym, ...]:
    key = BROKER_CONFIG.keys[name]
    return tuple(
        Synonym(name, _shown(key, value), _WIRE_SOURCES[source])
        for source, value in config.layers(name)
    )


def _entry(
    key: ConfigKey, value: Any, synonyms: tuple[Synonym, ...], *, read_only: bool
) -> ConfigEntry:
    source = synonyms[0].source if synonyms else WireSource.DEFAULT
    return ConfigEntry(
        name=key.name,
        value=_shown(key, value),
        source=source,
        read_only=read_only,
        sensitive=key.sensitive,
        type=int(key.type),
        doc=key.doc,
        synonyms=synonyms,
    )


def _shown(key: ConfigKey, value: Any) -> str | None:
    return None if key.sensitive else format_value(value)
