"""A DataNode's volumes at its start: which `dfs.datanode.data.dir` names, and which can be opened.

Owns: how the key is read, the lock of each volume, how many may be missing.
Must not know: block pools, what lies in a volume.
Spec: StorageLocation and FsDatasetImpl of Hadoop 3.5: a volume that can't be opened counts as
failed, and the node starts with the rest unless more failed than it tolerates.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.base.errors import StorageError, UsageError
from headrace.datanode.volume import Volume
from headrace.runtime.disk import DiskStorage

DATA_DIR = "dfs.datanode.data.dir"
TOLERATED = "dfs.datanode.failed.volumes.tolerated"
_TYPED = re.compile(r"\[(\w*)\](.*)")


@dataclass(slots=True)
class OpenedVolumes:
    volumes: list[Volume] = field(default_factory=list)
    """All that are configured; those that can't be opened are not out of service yet."""
    failed: list[tuple[Volume, StorageError]] = field(default_factory=list)
    datanode_uuid: str = ""
    """What they say whose they are; empty if all are new."""


def parse_volumes(text: str) -> list[str]:
    """Paths of `dfs.datanode.data.dir`: plain or `file:` URIs, `[DISK]` before them or nothing."""
    paths = []
    for entry in filter(None, map(str.strip, text.split(","))):
        typed = _TYPED.fullmatch(entry)
        storage_type, path = typed.groups() if typed else ("DISK", entry)
        if storage_type.upper() != "DISK":
            raise UsageError(
                f"{DATA_DIR}: {entry} asks for storage of type {storage_type}, and all storages "
                f"are disks here: write [DISK]{path}, or {path}"
            )
        paths.append(path.strip().removeprefix("file://").removeprefix("file:"))
    return paths


def open_volumes(
    storage: DiskStorage, paths: Sequence[str], *, reserved_bytes: int, tolerated: int
) -> OpenedVolumes:
    """Lock each; UsageError if too few are left, or one is in use. With `tolerated` of -1 one is
    enough."""
    opened = OpenedVolumes()
    for path in paths:
        volume = Volume(storage, path, reserved_bytes)
        opened.volumes.append(volume)
        try:
            datanode_uuid = _open(storage, volume)
        except StorageError as error:
            opened.failed.append((volume, error))
        else:
            opened.datanode_uuid = opened.datanode_uuid or datanode_uuid
    failed = len(opened.failed)
    if failed == len(paths) or 0 <= tolerated < failed:
        reasons = "; ".join(str(error) for _, error in opened.failed)
        raise UsageError(
            f"too many volumes failed: {failed} of {len(paths)} can't be opened, "
            f"{TOLERATED}={tolerated}: {reasons}"
        )
    return opened


def _open(storage: DiskStorage, volume: Volume) -> str:
    """The DataNode whose volume it says that it is; empty for a new one."""
    storage.make_directory(volume.path)
    holder = storage.lock(os.path.join(volume.path, "in_use.lock"))
    if holder is not None:
        raise UsageError(f"{volume.path} is in use by {holder}")
    return volume.read_identity().get("datanodeUuid", "")
