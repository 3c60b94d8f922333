"""Which file system a command talks to, and how a client's failures become sentences.

Must not know: typer, what a refusal means (`client.refusals`).
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.target import DEFAULT_DATA, read_json
from headrace.client.hadoop_rpc import RpcConnectionError
from headrace.client.namenode import NameNodeClient, parse_url
from headrace.client.native import require_answer, telling_client
from headrace.client.refusals import as_oserror, sentence
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    import hdfs_native

FS_VARIABLE = "HEADRACE_FS"
WEB_VARIABLE = "HEADRACE_WEB"
"""HOST:PORT of the pages of the NameNode that the other one names."""
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_SIGNALLED = 128


def fs_url_of(fs: str | None, data: str | None) -> str:
    """The flag, else the data directory's NameNode, else the environment, else ./headrace-data."""
    named = _named(fs, data)
    return _url(_addresses_in(named)[0] if isinstance(named, Path) else named)


def web_address_of(fs: str | None, data: str | None) -> str:
    """HOST:PORT of the same NameNode's pages, which a data directory tells and a URL does not."""
    named = _named(fs, data)
    if not isinstance(named, Path):
        web = os.environ.get(WEB_VARIABLE)
        if web and not fs:
            return web.removeprefix("http://").rstrip("/")
        raise UsageError(
            "fsck asks the NameNode's web port: give --http HOST:PORT or --data DIR, or set "
            f"{WEB_VARIABLE} beside {FS_VARIABLE}"
        )
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
def told_failures(path: str = "") -> Iterator[None]:
    """What both clients and this machine's files raise, as one sentence."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (RpcConnectionError, ConnectionError) as error:
        raise unanswered(sentence(error) if isinstance(error, OSError) else str(error)) from None
    except (OSError, RuntimeError, ValueError, RemoteError) as error:
        raise HeadraceError(sentence(as_oserror(error, path))) from None


class UnansweredError(HeadraceError):
    """Whatever was asked: nobody is there."""


def unanswered(words: str) -> HeadraceError:
    return UnansweredError(
        f"{words}; is the file system up? `headrace status` tells of the local one, `headrace up` "
        f"starts it, and --fs, --data or {FS_VARIABLE} names another"
    )


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind as well, so that nothing half done is left; the second one of them
    ends the process at once. The exit code is the shell's for a signal."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(_SIGNALLED + number)

    # One that is ignored stays so: nohup.
    changed = [one for one in _ENDING if signal.getsignal(one) is signal.SIG_DFL]
    for one in changed:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in changed:
            signal.signal(one, signal.SIG_DFL)


@contextmanager
def open_files(fs: str | None, data: str | None) -> "Iterator[hdfs_native.Client]":
    """hdfs-native on the file system that was asked for."""
    url = fs_url_of(fs, data)
    with ended_as_by_ctrl_c(), told_failures():
        yield telling_client(url)


@contextmanager
def open_namenode(fs: str | None, data: str | None, path: str = "") -> Iterator[NameNodeClient]:
    """Our own client, for what hdfs-native lacks; refusals that name no path are about `path`."""
    url = fs_url_of(fs, data)
    with told_failures(path), NameNodeClient(url) as client:
        require_answer(url)
        yield client
