"""Which file system a command talks to, and how a client's failures become sentences.

Must not know: typer. hdfs-native tells a refusal as text with Java's class name in it: people are
shown what the NameNode said.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.target import DEFAULT_DATA, read_json
from headrace.client.namenode import NameNodeClient, parse_url
from headrace.client.native import native_client

if TYPE_CHECKING:
    import hdfs_native

FS_VARIABLE = "HEADRACE_FS"

_REFUSAL = re.compile(r'^RPCError\("(?P<class_name>[\w.$]+)", "(?P<message>.*)"\)$', re.DOTALL)
_OTHER = re.compile(r'^\w+\("(?P<message>.*)"\)$', re.DOTALL)


def fs_url_of(fs: str | None, data: str | None) -> str:
    """The flag, else the data directory's NameNode, else the environment, else ./headrace-data."""
    named = _named(fs, data)
    return _url(_addresses_in(named)[0] if isinstance(named, Path) else named)


def web_address_of(fs: str | None, data: str | None) -> str:
    """HOST:PORT of the same NameNode's pages, which a data directory tells and a URL does not."""
    named = _named(fs, data)
    if not isinstance(named, Path):
        raise UsageError("fsck asks the NameNode's web port: give --http HOST:PORT or --data DIR")
    return _addresses_in(named)[1]


def _named(fs: str | None, data: str | None) -> str | Path:
    """A URL, or the directory of a cluster."""
    if fs and data:
        raise UsageError("give either --fs or --data, not both")
    if fs:
        return fs
    if data:
        return Path(data)
    from_environment = os.environ.get(FS_VARIABLE)
    if from_environment:
        return from_environment
    if Path(DEFAULT_DATA, "cluster.json").exists():
        return Path(DEFAULT_DATA)
    raise UsageError(
        "which file system? Give --fs hdfs://HOST:PORT, --data DIR of a `headrace up`, "
        f"or set {FS_VARIABLE}; `headrace up` starts one here"
    )


def _url(text: str) -> str:
    host, port = parse_url(text)
    return f"hdfs://{host}:{port}"


def _addresses_in(data: Path) -> tuple[str, str]:
    """Of the NameNode: what it listens on, and its pages."""
    described = read_json(data / "cluster.json")
    if described is not None and described.get("fs"):
        return str(described["fs"]), str(described["web"]).removeprefix("http://")
    # A NameNode that was started alone leaves its addresses too.
    for path in (data / "namenode.json", data / "namenode" / "namenode.json"):
        alone = read_json(path)
        if alone is not None:
            return str(alone["listen"]), str(alone["http"])
    if described is not None:
        raise HeadraceError(
            f"the cluster in {data} has no file system: it was started with --datanodes 0"
        )
    raise HeadraceError(
        f"no file system is up in {data}: there is no {data / 'cluster.json'}; "
        f"start one with `headrace up --data {data}`"
    )


@contextmanager
def told_failures() -> Iterator[None]:
    """What hdfs-native raises, as a HeadraceError with the NameNode's words."""
    try:
        yield
    except FileNotFoundError as error:
        raise HeadraceError(f"no such file: {_words(error)}") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise HeadraceError(_words(error)) from None


def _words(error: BaseException) -> str:
    text = str(error)
    for pattern in (_REFUSAL, _OTHER):
        found = pattern.match(text)
        if found is not None:
            return found["message"].replace("\\n", "\n").replace('\\"', '"')
    return text or type(error).__name__


@contextmanager
def open_files(fs: str | None, data: str | None) -> "Iterator[hdfs_native.Client]":
    """hdfs-native on the file system that was asked for."""
    url = fs_url_of(fs, data)
    with told_failures():
        yield native_client(url)


@contextmanager
def open_namenode(fs: str | None, data: str | None) -> Iterator[NameNodeClient]:
    """Our own client, for what hdfs-native lacks."""
    with NameNodeClient(fs_url_of(fs, data)) as client:
        yield client
