"""The end of a file that is being written or recovered: bytes that hdfs-native does not show.

A writer's bytes can be read as far as its DataNodes say (its hflush, at least). hdfs-native
(0.14.7) ends where the last block begins, so a short file looks empty until it is closed.

Owns: which files have such an end, and the way to it: WebHDFS on one of the block's own DataNodes,
which asks the others how far the block goes. Must not know: what is done with the bytes.
"""

import errno
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from headrace.client.namenode import NameNodeClient
from headrace.client.refusals import sentence, told_as_oserror

_TIMEOUT_S = 30.0
_CHUNK_BYTES = 1 << 20
_MESSAGE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class OpenEnd:
    path: str
    start: int
    """Where hdfs-native ends."""
    nodes: tuple[str, ...] | None
    """HOST:PORT of the web servers of the last block's DataNodes; None: no block is begun."""
    namenode: str
    user: str

    def read(self, offset: int) -> Iterator[bytes]:
        """What is visible from `offset` on, which is not before `start`; an OSError where no
        DataNode tells."""
        if self.nodes is None:
            return
        failure = "it has no DataNode"
        for node in self.nodes:
            sent = 0
            try:
                for chunk in self._read_from(node, offset):
                    sent += len(chunk)
                    yield chunk
                return
            except urllib.error.HTTPError as error:
                failure = f"{node}: {_said(error)}"
            except OSError as error:
                failure = f"{node}: {_reason(error)}"
            if sent:
                break
        raise OSError(
            errno.EBUSY,
            "its last block is being written or recovered, and no DataNode gives its bytes: try "
            f"again in a moment ({failure})",
            self.path,
        )

    def _read_from(self, node: str, offset: int) -> Iterator[bytes]:
        query = urlencode(
            {
                "op": "OPEN",
                "user.name": self.user,
                "namenoderpcaddress": self.namenode,
                "offset": offset,
            }
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = f"http://{node}/webhdfs/v1{quote(self.path)}?{query}"
        with opener.open(url, timeout=_TIMEOUT_S) as answer:
            while chunk := answer.read(_CHUNK_BYTES):
                yield chunk


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    return sentence(reason) if isinstance(reason, OSError) else str(reason or sentence(error))


def _said(error: urllib.error.HTTPError) -> str:
    try:
        told = json.loads(error.read(_MESSAGE_BYTES_MAX))["RemoteException"]["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return str(error)
    return str(told).partition("\n")[0]


def open_end(namenode: NameNodeClient, path: str) -> OpenEnd | None:
    """None: it is closed, and hdfs-native shows all of it."""
    with told_as_oserror(path):
        located = namenode.block_locations(path)
    if not located.underConstruction:
        return None
    nodes = None
    if located.HasField("lastBlock") and not located.isLastBlockComplete:
        nodes = tuple(f"{one.id.ipAddr}:{one.id.infoPort}" for one in located.lastBlock.locs)
    return OpenEnd(path, located.fileLength, nodes, namenode.where, namenode.user)
