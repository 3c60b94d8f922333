"""`headrace fs report|safemode|fsck|snapshot|quota|open-files`: the cluster behind the files."""

import re
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.base.sizes import size_bytes
from headrace.cli.app import Json, group
from headrace.cli.fs_options import Data, Fs, PathArgument, resolved
from headrace.cli.fs_target import open_namenode, unanswered, web_address_of
from headrace.cli.output import print_json, print_table, say
from headrace.client.namenode import QUOTA_MAX, DatanodeReport, NameNodeClient, user_name
from headrace.client.refusals import NO_SUCH_FILE, sentence
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

_NO_QUOTA = -1
_NO_QUOTA_TEXT = str(_NO_QUOTA)
_FSCK_TIMEOUT_S = 60
_POLL_S = 0.5
_SILENT_S = 10
_THEIR_COMMAND = re.compile(r'"hdfs dfsadmin -safemode (\w+)"')
_THEIR_ACTIONS = {"forceExit": "force-exit"}
_RECOVER_AGAIN_S = 10.0

snapshots = group("snapshot", "Frozen views of a directory.")


class SafeModeAction(StrEnum):
    GET = "get"
    ENTER = "enter"
    LEAVE = "leave"
    FORCE_EXIT = "force-exit"
    WAIT = "wait"


def add_to(commands: typer.Typer) -> None:
    commands.command("report")(report)
    commands.command("safemode")(safemode)
    commands.command("fsck")(fsck)
    commands.command("quota")(quota)
    commands.command("open-files")(open_files)
    commands.command("recover-lease")(recover_lease)
    commands.add_typer(snapshots)


def life_of(node: DatanodeReport, *, live: bool, now_ms: int) -> str:
    """`doubtful`: it should have been heard of several times since; the NameNode waits longer
    before it takes a DataNode for dead."""
    if not live:
        return "no"
    return "doubtful" if heard_s_ago(node, now_ms) > _SILENT_S else "yes"


def heard_s_ago(node: DatanodeReport, now_ms: int) -> int:
    """By this machine's clock."""
    return max(0, (now_ms - node.last_contact_ms) // 1000)


def report(fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Tell how much there is, and how each DataNode does, and when it was heard of last.

    A DataNode is doubtful when it has said nothing for 10 s; its blocks are copied when it is dead.

    \b
    Examples:
      headrace fs report
      headrace fs report --json | jq '.datanodes[].name'
    """
    with open_namenode(fs, data) as namenode:
        stats = namenode.stats()
        live = {node.uuid for node in namenode.datanodes("LIVE")}
        nodes = namenode.datanodes()
    now_ms = int(time.time() * 1000)
    if as_json:
        described = [
            {
                "name": node.name,
                "uuid": node.uuid,
                "live": node.uuid in live,
                "doubtful": life_of(node, live=node.uuid in live, now_ms=now_ms) == "doubtful",
                "heard_s_ago": heard_s_ago(node, now_ms),
                "state": node.state,
                "capacity": node.capacity,
                "used": node.used,
                "remaining": node.remaining,
                "blocks": node.blocks,
                "rack": node.rack,
                "http": node.http,
            }
            for node in nodes
        ]
        print_json({**stats, "datanodes": described})
        return
    print_table(["what", "value"], [[key.replace("_", " "), value] for key, value in stats.items()])
    print()
    print_table(
        ["datanode", "live", "heard", "state", "capacity", "used", "remaining", "blocks", "rack"],
        [
            [
                node.name,
                life_of(node, live=node.uuid in live, now_ms=now_ms),
                f"{heard_s_ago(node, now_ms)} s ago" if node.last_contact_ms else "-",
                node.state,
                node.capacity,
                node.used,
                node.remaining,
                node.blocks,
                node.rack,
            ]
            for node in nodes
        ],
    )


def safemode(
    action: Annotated[
        SafeModeAction, typer.Argument(help="get, enter, leave, force-exit or wait.")
    ] = SafeModeAction.GET,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Tell whether writes are refused, and why; stop or allow them.

    It stays on while DataNodes have blocks that the NameNode has never heard of: its name
    directory may be an old one. With force-exit it is left, and those blocks are deleted.
    With wait the command ends when it is off.

    \b
    Examples:
      headrace fs safemode
      headrace fs safemode leave
      headrace fs safemode force-exit
      headrace fs safemode wait && headrace fs put events.parquet /events/
    """
    with open_namenode(fs, data) as namenode:
        if action is SafeModeAction.WAIT:
            _await_writes(namenode)
            action = SafeModeAction.GET
        is_on = namenode.safe_mode(action.value.replace("-", "_"))
        reason = _why_safe(namenode) if is_on else None
        lost_bytes = namenode.stats().get("blocks_in_future", 0) if is_on else 0
    if as_json:
        print_json({"safe_mode": is_on, "reason": reason, "bytes_of_unknown_blocks": lost_bytes})
    else:
        print(f"safe mode is {'on' if is_on else 'off'}")
        if reason:
            print(reason)
    if is_on and action in (SafeModeAction.LEAVE, SafeModeAction.FORCE_EXIT):
        if lost_bytes and action is SafeModeAction.LEAVE:
            raise HeadraceError(
                f"safe mode was not left: DataNodes have {lost_bytes} bytes of blocks that this "
                "NameNode has never heard of. If its name directory is an old one, stop it and "
                "bring the newest; `headrace fs safemode force-exit` gives those bytes up"
            )
        raise HeadraceError("safe mode was not left")


def _await_writes(namenode: NameNodeClient) -> None:
    said = None
    while namenode.safe_mode():
        reason = _why_safe(namenode)
        if reason and reason != said:
            say(reason)
            said = reason
        time.sleep(_POLL_S)


def _why_safe(namenode: NameNodeClient) -> str | None:
    """In the NameNode's words, which come with each refusal of a change and not otherwise."""
    try:
        namenode.mkdirs("/", 0o755)  # which is there
    except RemoteError as refusal:
        if refusal.class_name == java.SAFE_MODE:
            told = refusal.message.partition("safe mode.")[2].strip().partition("\n")[0]
            return in_our_words(told) or None
    return None


def in_our_words(text: str) -> str:
    """A NameNode names Hadoop's command: not everybody has that."""
    return _THEIR_COMMAND.sub(
        lambda found: f"`headrace fs safemode {_THEIR_ACTIONS.get(found[1], found[1])}`", text
    )


def fsck(
    path: PathArgument = "/",
    files: Annotated[bool, typer.Option("--files", help="Name every file.")] = False,
    blocks: Annotated[bool, typer.Option("--blocks", help="And its blocks.")] = False,
    locations: Annotated[bool, typer.Option("--locations", help="And where they are.")] = False,
    move: Annotated[
        bool,
        typer.Option("--move", help="Copy what is left of damaged files to /lost+found."),
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete damaged files.")] = False,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Its web port. Default: $HEADRACE_WEB."),
    ] = None,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Check that all blocks have their replicas; exit 1 if some are missing.

    A file is damaged if no live DataNode has one of its blocks: before --delete, think of
    DataNodes that may come back. With --move too it goes once its remains are copied.

    \b
    Examples:
      headrace fs fsck / --data /srv/headrace
      headrace fs fsck /events --files --blocks --locations --http 127.0.0.1:9870
      headrace fs fsck /events --move --delete --data /srv/headrace
    """
    query = {"ugi": user_name(), "path": path}
    flags = {
        "files": files,
        "blocks": blocks,
        "locations": locations,
        "move": move,
        "delete": delete,
    }
    query |= {name: "1" for name, wanted in flags.items() if wanted}
    where = http or web_address_of(fs, data)
    url = f"http://{where}/fsck?{urllib.parse.urlencode(query)}"
    try:
        # A copy takes as long as it takes.
        with urllib.request.urlopen(url, timeout=None if move else _FSCK_TIMEOUT_S) as response:
            text = response.read().decode()
    except urllib.error.HTTPError as error:
        raise HeadraceError(error.read().decode().strip()) from None
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        words = sentence(reason) if isinstance(reason, OSError) else str(reason)
        raise unanswered(f"can't reach {where}: {words}") from None
    if text.strip() == f"Path '{path}' does not exist":
        raise HeadraceError(f"{path}: {NO_SUCH_FILE}")
    print(text.rstrip())
    if not text.rstrip().endswith("HEALTHY"):
        raise typer.Exit(1)


def quota(
    path: PathArgument,
    names: Annotated[
        str | None, typer.Option("--names", metavar="COUNT", help="Most names; -1: any.")
    ] = None,
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="SIZE", help="Most bytes, such as 10g; -1: any."),
    ] = None,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show or set the quotas of a directory: names, and bytes with all replicas.

    The directory itself is one of its names. A size has k, m, g or t for powers of 1024.

    \b
    Examples:
      headrace fs quota /events
      headrace fs quota /events --names 10000 --space 10g
      headrace fs quota /events --names -1
    """
    most_names = None if names is None else quota_limit(names, least=1)
    most_bytes = None if space is None else quota_limit(space, least=0)
    with open_namenode(fs, data, path) as namenode:
        if names is not None or space is not None:
            namenode.set_quota(path, names=most_names, space=most_bytes)
        found = namenode.quota(path)
    if as_json:
        print_json({"path": path, **found})
        return
    shown = {key: "none" if value == _NO_QUOTA else value for key, value in found.items()}
    print_table(list(shown), [list(shown.values())])


def quota_limit(text: str, *, least: int) -> int:
    """-1 takes a quota away. What HDFS's client refuses is refused: no names at all, and the number
    that means on the wire that a quota stays as it is."""
    if text.strip() == _NO_QUOTA_TEXT:
        return _NO_QUOTA
    found = size_bytes(text)
    if not least <= found <= QUOTA_MAX:
        raise UsageError(
            f"{text!r} can't be a quota: write {least} to {QUOTA_MAX}, or -1 to take it away"
        )
    return found


def open_files(
    path: PathArgument = "/", fs: Fs = None, data: Data = None, as_json: Json = False
) -> None:
    """List files that are being written, and by whom.

    \b
    Examples:
      headrace fs open-files
      headrace fs open-files /events --json
    """
    with open_namenode(fs, data, path) as namenode:
        if not namenode.exists(path):
            raise HeadraceError(f"{path}: {NO_SUCH_FILE}")
        found = list(namenode.open_files(path))
    if as_json:
        print_json([{"path": one[0], "client": one[1], "host": one[2]} for one in found])
    else:
        print_table(["path", "client", "host"], found)


def recover_lease(
    path: PathArgument,
    timeout: Annotated[
        int, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait.")
    ] = 60,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Close a file whose writer died, and wait until it is closed: others may then write it.

    A writer that lives still loses it.

    \b
    Examples:
      headrace fs recover-lease /logs/a.txt
      headrace fs recover-lease /logs/a.txt --timeout 300
    """
    with open_namenode(fs, data, path) as namenode:
        deadline = time.monotonic() + timeout
        while not namenode.recover_lease(path):
            # The DataNodes are asked for the end of the last block, which takes some heartbeats.
            asked = time.monotonic()
            while time.monotonic() < min(deadline, asked + _RECOVER_AGAIN_S):
                time.sleep(_POLL_S)
                if namenode.is_closed(path):
                    break
            if time.monotonic() >= deadline and not namenode.is_closed(path):
                raise HeadraceError(
                    f"{path}: is not closed yet after {timeout} s: it goes on, and the same "
                    "command waits; `headrace fs report` tells whether its DataNodes live"
                )
    say(f"{path} is closed")


# -- snapshots ------------------------------------------------------------------------------------


@snapshots.command("allow")
def allow(path: PathArgument, fs: Fs = None, data: Data = None) -> None:
    """Let a directory have snapshots.

    \b
    Examples:
      headrace fs snapshot allow /events
    """
    with open_namenode(fs, data, path) as namenode:
        namenode.allow_snapshot(path)


@snapshots.command("disallow")
def disallow(path: PathArgument, fs: Fs = None, data: Data = None) -> None:
    """Take that back, once it has none.

    \b
    Examples:
      headrace fs snapshot disallow /events
    """
    with open_namenode(fs, data, path) as namenode:
        namenode.disallow_snapshot(path)


SnapshotName = Annotated[str, typer.Argument(metavar="NAME", help="The snapshot's name.")]


@snapshots.command("create")
def create(
    path: PathArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Default: the time.")] = "",
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Make a snapshot; prints its path.

    \b
    Examples:
      headrace fs snapshot create /events
      headrace fs snapshot create /events before-cleanup
    """
    with open_namenode(fs, data, path) as namenode:
        print(namenode.create_snapshot(path, name))


@snapshots.command("delete")
def delete(path: PathArgument, name: SnapshotName, fs: Fs = None, data: Data = None) -> None:
    """Delete a snapshot.

    \b
    Examples:
      headrace fs snapshot delete /events before-cleanup
    """
    with open_namenode(fs, data, path) as namenode:
        namenode.delete_snapshot(path, name)
        say(f"deleted snapshot {name} of {path}")


@snapshots.command("rename")
def rename(
    path: PathArgument,
    name: SnapshotName,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Rename a snapshot.

    \b
    Examples:
      headrace fs snapshot rename /events before-cleanup kept
    """
    with open_namenode(fs, data, path) as namenode:
        namenode.rename_snapshot(path, name, new_name)


@snapshots.command("list")
def list_snapshots(
    path: Annotated[
        str | None, typer.Argument(metavar="[PATH]", help="Of it alone.", callback=resolved)
    ] = None,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List the snapshots of a directory, or the directories that may have some.

    \b
    Examples:
      headrace fs snapshot list
      headrace fs snapshot list /events --json
    """
    with open_namenode(fs, data, path or "") as namenode:
        if path is None:
            rows = [[found] for found in namenode.snapshottable()]
            columns = ["path"]
        else:
            rows = [
                [name, datetime.fromtimestamp(made_ms / 1000, UTC).isoformat(timespec="seconds")]
                for name, made_ms in namenode.snapshots(path)
            ]
            columns = ["name", "made"]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


@snapshots.command("diff")
def diff(
    path: PathArgument,
    older: Annotated[str, typer.Argument(metavar="OLDER", help="A snapshot's name.")],
    newer: Annotated[str, typer.Argument(metavar="NEWER", help="Default: the present.")] = "",
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Tell what changed: M modified, + made, - deleted, R renamed.

    \b
    Examples:
      headrace fs snapshot diff /events monday tuesday
      headrace fs snapshot diff /events monday
    """
    with open_namenode(fs, data, path) as namenode:
        changes = namenode.snapshot_diff(path, older, newer)
    if as_json:
        print_json(
            [{"kind": one.kind, "path": one.path or ".", "target": one.target} for one in changes]
        )
        return
    for one in changes:
        arrow = f" -> {one.target}" if one.target else ""
        print(f"{one.kind}\t{one.path or '.'}{arrow}")
