"""Which of a local cluster's settings goes to which of its nodes.

Owns: the rule that `--set KEY=VALUE` reaches every role that knows the key, and that a key which
nobody knows is refused. Must not know: what a key does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.base.broker_keys import BROKER_CONFIG
from headrace.base.config import ConfigDef, ConfigError
from headrace.base.hdfs_keys import HDFS_CONFIG


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """Texts as they were given; brokers and controllers share a table, so do file nodes."""

    log: dict[str, str]
    files: dict[str, str]


def split_settings(settings: Mapping[str, str], *, with_files: bool) -> RoleSettings:
    """Raises ConfigError for a key that no node of this cluster knows, or a value it refuses."""
    for key in settings:
        if key in BROKER_CONFIG.keys:
            continue
        if key not in HDFS_CONFIG.keys:
            raise ConfigError(key, f"no node knows the key {key}{_hint(key)}")
        if not with_files:
            raise ConfigError(key, f"{key} is the file system's, which --datanodes 0 leaves out")
    return RoleSettings(
        _known(BROKER_CONFIG, settings), _known(HDFS_CONFIG, settings) if with_files else {}
    )


def _known(definition: ConfigDef, settings: Mapping[str, str]) -> dict[str, str]:
    known = {key: value for key, value in settings.items() if key in definition.keys}
    definition.parse_given(known)
    return known


def _hint(key: str) -> str:
    # Only a refusal pays for this import.
    from difflib import get_close_matches

    close = get_close_matches(key, [*BROKER_CONFIG.keys, *HDFS_CONFIG.keys], n=1)
    return f"; did you mean {close[0]}?" if close else "; `headrace config list` shows all"
