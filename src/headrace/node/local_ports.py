"""Ports of a local cluster: asked for by `--ports BASE`, or free ones that are kept.

Owns: which port a node gets. Must not know: what listens there.

Free ports are taken below the range from which the kernel gives ports to outgoing
connections: a port from that range may be somebody's by the time a dead node comes back.
"""

import random
import socket
from collections.abc import Mapping
from typing import Any

from headrace.base.errors import HeadraceError, UsageError

HOST = "127.0.0.1"
FREE_PORT_MIN = 20_000
FREE_PORT_MAX = 31_999


class Ports:
    """Ports of one cluster; none is given twice."""

    def __init__(
        self, base_port: int | None, remembered: Mapping[str, Any], source: random.Random
    ) -> None:
        self._base_port = base_port
        self._remembered = remembered
        self._source = source
        self._taken: set[int] = set()

    def of(self, name: str, wanted: Mapping[str, int]) -> dict[str, int]:
        """The node's ports by kind; `wanted` has each kind's distance from the base."""
        known = self._remembered.get(name)
        known = known if isinstance(known, dict) else {}
        ports = {}
        for kind, step in wanted.items():
            if self._base_port is not None:
                port = _asked(name, self._base_port + step)
            else:
                port = _kept_or_free(known.get(kind), self._taken, self._source)
            self._taken.add(port)
            ports[kind] = port
        return ports


def _asked(name: str, port: int) -> int:
    if not 1 <= port <= 65_535:
        raise UsageError(f"--ports leads to port {port} for {name}: ports go from 1 to 65535")
    if not is_free(port):
        raise HeadraceError(
            f"port {port} for {name} is in use by another process: "
            "choose another --ports BASE, or leave it out for free ports"
        )
    return port


def _kept_or_free(known: object, taken: set[int], source: random.Random) -> int:
    if isinstance(known, int) and known not in taken and is_free(known):
        return known
    for _ in range(1_000):
        port = source.randint(FREE_PORT_MIN, FREE_PORT_MAX)
        if port not in taken and is_free(port):
            return port
    raise HeadraceError(f"no free port between {FREE_PORT_MIN} and {FREE_PORT_MAX}")


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: the last connections of a stopped node must not count as its port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
