"""One data directory of a DataNode: its layout, its identity, its room.

    DIR/current/VERSION                                   storageID, clusterID, datanodeUuid
    DIR/current/BP-…/current/VERSION                      namespaceID, blockpoolID
    DIR/current/BP-…/current/finalized/subdirX/subdirY/   blk_ID and blk_ID_GS.meta
    DIR/current/BP-…/current/rbw/                         the same, being written
    DIR/current/BP-…/tmp/                                 copies on their way in; emptied at start
    DIR/current/BP-…/scanner.cursor                       how far the scanner came

Owns: paths, VERSION files, free and used room. Must not know: replicas' states.
Spec: DataStorage and BlockPoolSliceStorage of Hadoop 3.5 (layout -57), near enough to read.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.base.errors import StorageError, UsageError
from headrace.base.storage import Storage

LAYOUT_VERSION = -57
_BLOCK = re.compile(r"blk_(-?\d+)")
_META = re.compile(r"blk_(-?\d+)_(\d+)\.meta")


@dataclass(frozen=True, slots=True)
class PoolIdentity:
    """Whose blocks these are: the NameNode's answer to versionRequest."""

    pool_id: str
    namespace_id: int
    cluster_id: str
    ctime: int


def block_name(block_id: int) -> str:
    return f"blk_{block_id}"


def meta_name(block_id: int, generation_stamp: int) -> str:
    return f"blk_{block_id}_{generation_stamp}.meta"


class Volume:
    """A data directory in service, or out of it (`failed`)."""

    __slots__ = (
        "_lasting",
        "_made",
        "_storage",
        "credit",
        "failed",
        "finalized",
        "path",
        "rbw",
        "reserved_bytes",
        "storage_id",
        "tmp",
        "used_bytes",
    )

    def __init__(self, storage: Storage, path: str, reserved_bytes: int = 0) -> None:
        self._storage = storage
        self.path = path
        self.storage_id = ""
        self.reserved_bytes = reserved_bytes
        self.used_bytes = 0
        self.credit = 0
        """Room that it had when others were chosen: who has most is next."""
        self.failed = False
        self.finalized = self.rbw = self.tmp = ""
        self._made: set[str] = set()
        self._lasting: set[str] = set()
        """Folders whose own names are sure to be on disk."""

    def __str__(self) -> str:
        return self.path

    # -- identity ----------------------------------------------------------------------

    @property
    def _version_path(self) -> str:
        return f"{self.path}/current/VERSION"

    def read_identity(self) -> dict[str, str]:
        """What the volume's VERSION says; empty for a new directory."""
        return self._read_properties(self._version_path)

    def _read_properties(self, path: str) -> dict[str, str]:
        try:
            text = self._storage.read_file(path).decode("utf-8", "replace")
        except FileNotFoundError:
            return {}
        return parse_properties(text)

    def _check_layout(self, known: dict[str, str]) -> None:
        """Folders and files of another layout would not be found, or be misread."""
        version = known.get("layoutVersion", str(LAYOUT_VERSION))
        if version != str(LAYOUT_VERSION):
            raise UsageError(
                f"Unexpected version of storage directory {self.path}. Reported: {version}. "
                f"Expecting = {LAYOUT_VERSION}."
            )

    def _check_pool(self, path: str, pool: PoolIdentity) -> None:
        """What lies there is of this namespace, and of no later life of it."""
        known = self._read_properties(path)
        if not known:
            return
        self._check_layout(known)
        namespace_id, ctime = known.get("namespaceID", ""), known.get("cTime", "")
        if namespace_id != str(pool.namespace_id):
            raise UsageError(
                f"Incompatible namespaceIDs in {self.path}: namenode namespaceID = "
                f"{pool.namespace_id}; datanode namespaceID = {namespace_id}"
            )
        if not ctime.isdecimal() or int(ctime) > pool.ctime:
            raise UsageError(
                f"Datanode state in {self.path}: CTime = {ctime} is newer than the namespace "
                f"state: CTime = {pool.ctime}"
            )

    def format(self, pool: PoolIdentity, datanode_uuid: str, make_uuid: Callable[[], str]) -> None:
        """Make the folders of a block pool; refuse a directory of another cluster or layout."""
        known = self.read_identity()
        self._check_layout(known)
        if known and known.get("clusterID") != pool.cluster_id:
            raise UsageError(
                f"{self.path} belongs to cluster {known.get('clusterID')}, the NameNode to "
                f"{pool.cluster_id}; give the DataNode another directory"
            )
        self.storage_id = known.get("storageID") or f"DS-{make_uuid()}"
        pool_path = f"{self.path}/current/{pool.pool_id}"
        self._check_pool(f"{pool_path}/current/VERSION", pool)
        self.finalized = f"{pool_path}/current/finalized"
        self.rbw = f"{pool_path}/current/rbw"
        self.tmp = f"{pool_path}/tmp"
        storage = self._storage
        if storage.exists(self.tmp):
            storage.remove_directory(self.tmp)
        for folder in (self.finalized, self.rbw, self.tmp):
            storage.make_directory(folder)
        self._made, self._lasting = set(), set()
        if not known:
            storage.replace_file(
                self._version_path,
                format_properties(
                    {
                        "storageID": self.storage_id,
                        "clusterID": pool.cluster_id,
                        "cTime": "0",
                        "datanodeUuid": datanode_uuid,
                        "storageType": "DATA_NODE",
                        "layoutVersion": str(LAYOUT_VERSION),
                    }
                ),
            )
        if not storage.exists(f"{pool_path}/current/VERSION"):
            storage.replace_file(
                f"{pool_path}/current/VERSION",
                format_properties(
                    {
                        "namespaceID": str(pool.namespace_id),
                        "cTime": str(pool.ctime),
                        "blockpoolID": pool.pool_id,
                        "layoutVersion": str(LAYOUT_VERSION),
                    }
                ),
            )

    @property
    def cursor_path(self) -> str:
        """Where the scanner of a formatted volume notes how far it came."""
        return f"{self.tmp.rpartition('/')[0]}/scanner.cursor"

    # -- room --------------------------------------------------------------------------

    def capacity_bytes(self) -> int:
        return self._room(self._storage.total_bytes)

    def free_bytes(self) -> int:
        return self._room(self._storage.free_bytes)

    def _room(self, measure: Callable[[str], int]) -> int:
        try:
            return max(0, measure(self.path) - self.reserved_bytes)
        except FileNotFoundError as error:
            # For a single file that is an answer, for a whole volume it is a failure.
            raise StorageError(self.path, error) from error

    # -- folders -----------------------------------------------------------------------

    def finalized_folder(self, block_id: int) -> str:
        first, second = (block_id >> 16) & 0x1F, (block_id >> 8) & 0x1F
        return f"{self.finalized}/subdir{first}/subdir{second}"

    def make_finalized_folder(self, block_id: int) -> str:
        folder = self.finalized_folder(block_id)
        if folder not in self._made:
            self._storage.make_directory(folder)
            self._made.add(folder)
        return folder

    def folders_to_sync(self, folder: str) -> tuple[str, ...]:
        """For a name in `folder` to last, the names of the folders above must, too. Of a rename
        only the new place counts: both names of a file would be one replica, the finalized one."""
        if folder in self._lasting or not folder.startswith(self.finalized):
            return (folder,)
        return folder, folder.rpartition("/")[0], self.finalized

    def on_synced(self, folder: str) -> None:
        self._lasting.add(folder)

    def finalized_files(self) -> Iterator[tuple[str, list[str]]]:
        """Each folder of finalized blocks with the names in it."""
        storage = self._storage
        for first in storage.list(self.finalized):
            outer = f"{self.finalized}/{first}"
            if not storage.is_directory(outer):
                continue
            for second in storage.list(outer):
                folder = f"{outer}/{second}"
                if storage.is_directory(folder):
                    yield folder, storage.list(folder)

    def rbw_files(self) -> list[str]:
        return self._storage.list(self.rbw)

    def check(self) -> None:
        """Raise StorageError unless a file can be made here."""
        probe = f"{self.tmp}/probe"
        self._storage.replace_file(probe, b"x", sync=False)
        with contextlib.suppress(FileNotFoundError):
            self._storage.remove(probe)

    def owns(self, error: StorageError) -> bool:
        return error.path.startswith(self.path + "/")


def pair_files(names: list[str]) -> tuple[list[tuple[int, int]], list[str]]:
    """(block id, generation stamp) of blocks with a meta file; the names that fit nothing."""
    blocks = {int(match[1]): name for name in names if (match := _BLOCK.fullmatch(name))}
    metas: dict[int, list[int]] = {}
    strays = [name for name in names if not (_BLOCK.fullmatch(name) or _META.fullmatch(name))]
    for name in names:
        if match := _META.fullmatch(name):
            metas.setdefault(int(match[1]), []).append(int(match[2]))
    pairs = []
    for block_id, name in blocks.items():
        stamps = metas.pop(block_id, None)
        if stamps is None:
            strays.append(name)
        else:
            # A crash between two renames may leave an older stamp behind.
            pairs.append((block_id, max(stamps)))
            strays += [meta_name(block_id, old) for old in stamps if old != max(stamps)]
    strays += [meta_name(block_id, stamp) for block_id, left in metas.items() for stamp in left]
    return pairs, strays


def parse_properties(text: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
    return {key.strip(): value.strip() for key, value in pairs}


def format_properties(values: dict[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
