"""A node's configuration, from flags, environment and file; and what is too open to be started.

Owns: what the flags of `headrace broker` and `headrace controller` stand for.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from headrace.base.broker_config import BrokerConfig
from headrace.base.config_sources import read_config_text
from headrace.base.errors import UsageError

CONTROLLER_LISTENER = "CONTROLLER"


def load_config(
    data: str,
    *,
    listen: str | None = None,
    controller_listen: str | None = None,
    config_file: str | None = None,
    settings: Mapping[str, str] | None = None,
    node_id: int | None = None,
    metrics_listen: str | None = None,
) -> BrokerConfig:
    """Flags over environment over file over defaults."""
    from_file = None
    if config_file is not None:
        try:
            from_file = read_config_text(Path(config_file).read_text(), config_file)
        except OSError as error:
            raise UsageError(f"can't read {config_file}: {error.strerror}") from error
    flags = dict(settings or {})
    listeners = _listeners(listen, controller_listen)
    if listeners:
        flags["listeners"] = listeners
    if node_id is not None:
        flags["node.id"] = str(node_id)
    if metrics_listen is not None:
        flags["headrace.metrics.listener"] = metrics_listen
    config = BrokerConfig.of(flags, environment=os.environ, file=from_file)
    if config.log_dirs:
        return config
    flags.update(data_settings(data))
    return BrokerConfig.of(flags, environment=os.environ, file=from_file)


def data_settings(data: str) -> dict[str, str]:
    """What `--data DIR` stands for where no directories are configured."""
    return {"log.dirs": os.path.join(data, "log")}


def _listeners(listen: str | None, controller_listen: str | None) -> str:
    listeners = []
    if listen is not None:
        listeners.append(f"PLAINTEXT://{listen}")
    if controller_listen is not None:
        listeners.append(f"{CONTROLLER_LISTENER}://{controller_listen}")
    return ",".join(listeners)


def refuse_exposed_listeners(config: BrokerConfig, insecure: bool) -> None:
    """Without authentication only loopback is served, unless somebody insists."""
    for name, host, port in config.listeners:
        if not _is_loopback(host) and not insecure:
            raise UsageError(
                f"listener {name}://{host}:{port} is open to the network and nothing "
                "authenticates clients yet; listen on 127.0.0.1, or say --insecure"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name: nobody knows what it will mean tomorrow
