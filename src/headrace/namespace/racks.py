"""Racks: which one a host is in, by a table that the operator keeps.

Owns: the table's form and how an address or a name is looked up. Must not know: files, DataNodes.
Spec: TableMapping of Hadoop (`net.topology.table.file.name`): lines of a host, by address or name,
and a rack. Who is not in it is in the default rack. Beyond Hadoop's: HOST:PORT for DataNodes that
share a machine.
"""

from headrace.base.errors import UsageError
from headrace.namespace.datanodes import DEFAULT_RACK


def parse_racks(text: str, source: str) -> dict[str, str]:
    """UsageError names the line that is none."""
    racks: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not words[1].startswith("/") or words[1].rstrip("/") == "":
            raise UsageError(f"{source}, line {number}: not a host and a rack such as /rack1")
        racks[words[0].lower()] = "/" + "/".join(filter(None, words[1].split("/")))
    return racks


class Racks:
    def __init__(self, table: dict[str, str] | None = None) -> None:
        self.table = table or {}

    def __call__(self, address: str, host_name: str = "", port: int = 0) -> str:
        """`port` tells DataNodes of one machine apart, where the table has HOST:PORT."""
        for name in (f"{address}:{port}", address, host_name.lower()):
            rack = self.table.get(name)
            if rack is not None:
                return rack
        return DEFAULT_RACK
