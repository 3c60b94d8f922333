"""DataNodes that an administrator told to leave by a call, kept beside the checkpoints.

Owns: the file `hosts.json` and how it adds to the lists of `dfs.hosts.exclude`.
Must not know: RPC, who is connected. Spec of the entries: CombinedHostsFileWriter of Hadoop.

    [{"hostName": "10.0.0.7", "port": 9866, "adminState": "DECOMMISSIONED"}, …]

Invariants: an order is durable before it is obeyed; a name has one order at most; a damaged file
stops the start rather than let a leaving DataNode come back unnoticed.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.base.errors import UsageError
from headrace.base.storage import Storage
from headrace.namespace.leaving import Hosts


class Wish(StrEnum):
    IN_SERVICE = "NORMAL"
    DECOMMISSIONED = "DECOMMISSIONED"
    IN_MAINTENANCE = "IN_MAINTENANCE"


@dataclass(frozen=True, slots=True)
class Order:
    wish: Wish
    maintenance_until_ms: int = 0


class HostOrders:
    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._orders: dict[str, Order] = {}
        try:
            text = storage.read_file(path).decode()
        except FileNotFoundError:
            return
        try:
            self._orders = dict(_order(entry) for entry in json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} is damaged: {error!r}") from error

    def give(self, names: set[str], node: str, order: Order) -> None:
        """An order for `node`; others that stand under any of its `names` are taken back."""
        orders = {name: old for name, old in self._orders.items() if name not in names}
        if order.wish is not Wish.IN_SERVICE:
            orders[node] = order
        entries = [_entry(name, kept) for name, kept in sorted(orders.items())]
        content = json.dumps(entries, indent=1).encode() + b"\n"
        self._storage.replace_file(self._path, content)
        self._orders = orders

    def added_to(self, hosts: Hosts) -> Hosts:
        leaving = {n for n, o in self._orders.items() if o.wish is Wish.DECOMMISSIONED}
        resting = {
            name: order.maintenance_until_ms
            for name, order in self._orders.items()
            if order.wish is Wish.IN_MAINTENANCE
        }
        return Hosts(hosts.included, hosts.excluded | leaving, {**hosts.maintenance, **resting})


def _entry(name: str, order: Order) -> dict[str, Any]:
    host, _, port = name.partition(":")
    entry: dict[str, Any] = {"hostName": host, "adminState": order.wish.value}
    if port:
        entry["port"] = int(port)
    if order.maintenance_until_ms:
        entry["maintenanceExpireTimeInMS"] = order.maintenance_until_ms
    return entry


def _order(entry: dict[str, Any]) -> tuple[str, Order]:
    name = str(entry["hostName"])
    if entry.get("port"):
        name = f"{name}:{int(entry['port'])}"
    until_ms = int(entry.get("maintenanceExpireTimeInMS") or 0)
    return name, Order(Wish(entry["adminState"]), until_ms)
