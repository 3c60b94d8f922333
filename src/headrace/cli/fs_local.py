"""Files and folders of this machine that `headrace fs put|get` copy.

Owns: what of a folder is copied, and that a file has its name only when it is whole.
Must not know: the file system they are copied to or from.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headrace.base.errors import HeadraceError
from headrace.cli.fs_failures import Failures


def local_tree(
    folder: Path, failures: Failures, above: tuple[tuple[int, int], ...] = ()
) -> Iterator[Path]:
    """Files and folders below, a folder before what is in it, links as what they lead to. What is
    neither, or leads nowhere or back, is a failure of its own."""
    names: list[str] = []
    with failures.of(str(folder), is_done=False):
        found = folder.stat()
        above = (*above, (found.st_dev, found.st_ino))
        names = sorted(os.listdir(folder))
    for name in names:
        path = folder / name
        status = None
        with failures.of(str(path), is_done=False):
            status = _copied(path, above)
        if status is None:
            continue
        yield path
        if stat.S_ISDIR(status.st_mode):
            yield from local_tree(path, failures, above)


def _copied(path: Path, above: tuple[tuple[int, int], ...]) -> os.stat_result:
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise HeadraceError(
                f"{path}: is a symbolic link to {path.readlink()}, and nothing is there"
            ) from None
        raise
    if (status.st_dev, status.st_ino) in above:
        raise HeadraceError(f"{path}: is a symbolic link to a folder that it is in")
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise HeadraceError(f"{path}: is neither a file nor a folder")
    return status


@contextmanager
def local_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that has its name when it is whole. Until then it has one that nobody else has;
    its rights are those of any new file."""
    aside = path.with_name(f".{secrets.token_hex(8)}.part")
    sink = aside.open("xb")
    try:
        with sink:
            yield sink
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
