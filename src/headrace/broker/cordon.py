"""Log directories that take no new replicas: what is there stays and is served (KIP-1066).

Owns: the way from `cordoned.log.dirs` to directories, and the check that only the broker itself can
make: that they are its own. Must not know: who is told of them (`lifecycle`, `homes`).
A broker whose directories are all cordoned is cordoned itself: the controller places nothing there.
"""

from collections.abc import Iterable
from typing import Any

from headrace.base.broker_config import BrokerConfig
from headrace.cluster.configs import Operation
from headrace.cluster.image import RESOURCE_BROKER

KEY = "cordoned.log.dirs"
EVERY = "*"


def cordoned_paths(config: BrokerConfig) -> frozenset[str]:
    own = frozenset(config.log_dirs)
    named = config[KEY] or ()
    return own if EVERY in named else own.intersection(named)


def cordon_refusals(
    config: BrokerConfig, broker_id: int, resources: Iterable[Any]
) -> dict[tuple[int, str], str]:
    """Of an alteration of configs: which resources would cordon directories that are not here."""
    refused: dict[tuple[int, str], str] = {}
    for resource in resources:
        if resource.resource_type != RESOURCE_BROKER or resource.resource_name != str(broker_id):
            continue
        for entry in resource.configs:
            unknown = _unknown(config, entry) if entry.name == KEY else None
            if unknown is not None:
                refused[resource.resource_type, resource.resource_name] = (
                    f"All entries in {KEY} must be present in log.dirs or log.dir: "
                    f"{unknown} is not one of {', '.join(config.log_dirs)}"
                )
    return refused


def _unknown(config: BrokerConfig, entry: Any) -> str | None:
    if getattr(entry, "config_operation", Operation.SET) not in (Operation.SET, Operation.APPEND):
        return None
    known = {*config.log_dirs, EVERY, ""}
    for path in (entry.value or "").split(","):
        if path.strip() not in known:
            return str(path.strip())
    return None
