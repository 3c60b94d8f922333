"""DataNodes that are to leave: which are meant, and whether the rest can hold what they have.

Owns: the arithmetic. Must not know: how they are told, what is printed.
A NameNode takes the order in any case: DataNodes that leave then wait for replicas that nobody has
room for, and are never done.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from headrace.base.errors import HeadraceError
from headrace.client.namenode import DatanodeReport, NameNodeClient
from headrace.wire.hadoop.exceptions import RemoteError

NORMAL = "normal"
_OPEN_FILES_MAX = 1_000
_SAMPLE_BYTES = 16 << 30
"""Of each node's blocks so many bytes are looked at, from a random one on."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What would stay, and what would have to fit there."""

    nodes: int
    remaining_bytes: int
    leaving_bytes: int
    replicas_max: int
    """Of one block of the leaving nodes."""

    def objection(self) -> str | None:
        if self.nodes == 0:
            return "no DataNode would stay in service"
        if self.replicas_max > self.nodes:
            return (
                f"there are blocks with {self.replicas_max} replicas, and {self.nodes} DataNodes "
                f"would stay: start another, or lower the files' replicas with "
                f"`headrace fs setrep -r {self.nodes} PATH` and wait some seconds"
            )
        if self.leaving_bytes > self.remaining_bytes:
            return (
                f"{self.leaving_bytes} bytes would have to move, and the DataNodes that stay have "
                f"room for {self.remaining_bytes}: add disks or DataNodes, or delete something"
            )
        return None


def nodes_named(name: str, nodes: Iterable[DatanodeReport]) -> list[DatanodeReport]:
    """By HOST:PORT as `report` shows it, or all on a host by its name or address."""
    known = list(nodes)
    found = [
        node
        for node in known
        if name in (node.name, node.host, node.address, f"{node.host}:{node.port}")
    ]
    if not found:
        names = ", ".join(node.name for node in known) or "none"
        raise HeadraceError(f"{name} is no DataNode of this cluster, which are: {names}")
    return found


def rest_without(namenode: NameNodeClient, leaving: Sequence[DatanodeReport]) -> Rest:
    infos = namenode.datanode_infos()
    live = {info.id.datanodeUuid for info in infos}
    gone = {node.uuid for node in leaving}
    serving = {node.uuid: node for node in namenode.datanodes() if _serves(node, live)}
    staying = [node for uuid, node in serving.items() if uuid not in gone]
    return Rest(
        nodes=len(staying),
        remaining_bytes=sum(node.remaining for node in staying),
        leaving_bytes=sum(node.used for node in leaving),
        replicas_max=max(
            (
                _replicas(block.datanodeUuids, serving)
                for info in infos
                if info.id.datanodeUuid in gone
                for block in namenode.blocks_of(info.id, _SAMPLE_BYTES)
            ),
            default=0,
        ),
    )


def open_files_on(namenode: NameNodeClient, nodes: set[str]) -> list[str]:
    """Files whose last block is being written and has a replica on one of the nodes (HOST:PORT).

    Of the first thousand open files: this is to name some, not to count them.
    """
    found = []
    for path, _, _ in islice(namenode.open_files(), _OPEN_FILES_MAX):
        try:
            located = namenode.block_locations(path)
        except RemoteError:  # it went away meanwhile
            continue
        if not located.underConstruction or located.isLastBlockComplete:
            continue
        if any(f"{one.id.ipAddr}:{one.id.xferPort}" in nodes for one in located.lastBlock.locs):
            found.append(path)
    return found


def _serves(node: DatanodeReport, live: set[str]) -> bool:
    return node.state == NORMAL and node.uuid in live


def _replicas(uuids: Iterable[str], serving: Mapping[str, DatanodeReport]) -> int:
    return sum(uuid in serving for uuid in uuids)
