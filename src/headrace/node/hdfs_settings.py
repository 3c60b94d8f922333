"""Configuration of the file system's processes: where it comes from, what it means to all of them.

Owns: the way to HDFS's keys, addresses, the loopback rule, who is a superuser.
Must not know: how anything is served, or the namespace (DataNodes have none in memory).
"""

import contextlib
import ipaddress
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.base.config_sources import Resolved, read_config_text, resolve
from headrace.base.errors import UsageError
from headrace.base.hdfs_keys import HDFS_CONFIG


def load_config(config_file: str | None, settings: dict[str, str]) -> Resolved:
    """Flags over environment over file over defaults."""
    from_file = None
    if config_file is not None:
        try:
            from_file = read_config_text(Path(config_file).read_text(), config_file)
        except OSError as error:
            raise UsageError(f"can't read {config_file}: {error.strerror}") from error
    return resolve(HDFS_CONFIG, flags=settings, environment=os.environ, file=from_file)


def refuse_exposed(key: str, listener: str, insecure: bool) -> None:
    """Without authentication only loopback is served, unless somebody insists."""
    host, _ = parse_address(key, listener)
    if insecure or host == "localhost":
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    raise UsageError(
        f"{key}={listener} is open to the network and nothing authenticates clients yet; "
        "listen on 127.0.0.1, or say --insecure"
    )


def parse_address(key: str, text: str) -> tuple[str, int]:
    before, _, port = text.rpartition(":")
    host = before.strip("[]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{key}={text} is not HOST:PORT")
    return host, int(port)


def administrators(config: dict[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, config["dfs.cluster.administrators"].split(","))))


class Superusers:
    """Who may give a DataNode orders: who runs it, and the superusers of the namespace."""

    def __init__(
        self, config: dict[str, Any], owner: str, groups: Callable[[str], tuple[str, ...]]
    ) -> None:
        self._are_checked = bool(config["dfs.permissions.enabled"])
        self._names = administrators(config) | {owner}
        self._group = str(config["dfs.permissions.superusergroup"])
        self._groups = groups

    def __call__(self, user: str) -> bool:
        return not self._are_checked or user in self._names or self._group in self._groups(user)
