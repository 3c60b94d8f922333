"""`headrace fs`: files and directories of an HDFS, ours or Apache's.

Owns: the commands that look and change names; `fs_data` moves bytes, `fs_admin` asks the cluster.
"""

from datetime import UTC, datetime
from stat import S_ISVTX
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli import fs_admin, fs_data, fs_nodes
from headrace.cli.app import Data, Json
from headrace.cli.fs_options import Fs, PathArgument, Paths, commands
from headrace.cli.fs_target import open_files, open_namenode
from headrace.cli.output import print_json, print_table, say
from headrace.client.trash import Trash

if TYPE_CHECKING:
    import hdfs_native

__all__ = ["commands", "register"]

Recursive = Annotated[bool, typer.Option("--recursive", "-r", "-R", help="All below it too.")]


def register(app: typer.Typer) -> None:
    fs_data.add_to(commands)
    fs_admin.add_to(commands)
    fs_nodes.add_to(commands)
    app.add_typer(commands)


def describe(status: "hdfs_native.FileStatus") -> dict[str, Any]:
    return {
        "path": status.path,
        "type": "directory" if status.isdir else "file",
        "length": status.length,
        "permission": f"{status.permission:o}",
        "owner": status.owner,
        "group": status.group,
        "replication": status.replication or 0,
        "block_size": status.blocksize or 0,
        "modified": _time(status.modification_time),
        "accessed": _time(status.access_time),
    }


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def mode_text(status: "hdfs_native.FileStatus") -> str:
    bits = "".join(
        letter if status.permission & (0o400 >> index) else "-"
        for index, letter in enumerate("rwxrwxrwx")
    )
    if status.permission & S_ISVTX:
        bits = bits[:-1] + ("t" if bits[-1] == "x" else "T")
    return ("d" if status.isdir else "-") + bits


@commands.command("ls")
def ls(
    path: PathArgument = "/",
    recursive: Recursive = False,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List a directory.

    \b
    Examples:
      headrace fs ls /
      headrace fs ls -r /events --json | jq -r '.[].path'
    """
    with open_files(fs, data) as client:
        found = sorted(client.list_status(path, recursive), key=lambda status: status.path)
    if as_json:
        print_json([describe(status) for status in found])
        return
    print_table(
        ["mode", "replicas", "owner", "group", "length", "modified", "path"],
        [
            [
                mode_text(status),
                status.replication or "-",
                status.owner,
                status.group,
                status.length,
                _time(status.modification_time),
                status.path,
            ]
            for status in found
        ],
    )


@commands.command("stat")
def stat(path: PathArgument, fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Tell all about one file or directory.

    \b
    Examples:
      headrace fs stat /events/part-0.parquet
      headrace fs stat /events --json | jq .owner
    """
    with open_files(fs, data) as client:
        described = describe(client.get_file_info(path))
    if as_json:
        print_json(described)
    else:
        print_table(["what", "value"], list(described.items()))


@commands.command("du")
def du(paths: Paths, fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Count files, bytes and the space they take with all replicas.

    \b
    Examples:
      headrace fs du /events /backup
      headrace fs du / --json
    """
    with open_files(fs, data) as client:
        found = []
        for path in paths:
            summary = client.get_content_summary(path)
            found.append(
                {
                    "path": path,
                    "length": summary.length,
                    "space": summary.space_consumed,
                    "files": summary.file_count,
                    "directories": summary.directory_count,
                }
            )
    if as_json:
        print_json(found)
    else:
        print_table(
            ["length", "space", "files", "directories", "path"],
            [
                [one["length"], one["space"], one["files"], one["directories"], one["path"]]
                for one in found
            ],
        )


@commands.command("mkdir")
def mkdir(
    paths: Paths,
    mode: Annotated[str, typer.Option("--mode", "-m", help="Permission, octal.")] = "755",
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Make directories, and those above them.

    \b
    Examples:
      headrace fs mkdir /events/raw
      headrace fs mkdir --mode 1777 /scratch
    """
    permission = parse_mode(mode)
    with open_files(fs, data) as client:
        for path in paths:
            client.mkdirs(path, permission, True)


@commands.command("mv")
def mv(
    source: PathArgument,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Its new name.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file.")] = False,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Rename, in one step that nobody sees half done; into TARGET if that is a directory.

    \b
    Examples:
      headrace fs mv /staging/day-1 /events/day-1
      headrace fs mv --overwrite /new.json /current.json
    """
    with open_files(fs, data) as client:
        if _is_directory(client, target):
            target = f"{target.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}"
        client.rename(source, target, overwrite)


def _is_directory(client: "hdfs_native.Client", path: str) -> bool:
    try:
        return bool(client.get_file_info(path).isdir)
    except FileNotFoundError:
        return False


TrashInterval = Annotated[
    int,
    typer.Option(
        "--trash-interval",
        metavar="MINUTES",
        min=0,
        help="How long trash is kept, where the NameNode does not say (fs.trash.interval).",
    ),
]


@commands.command("rm")
def rm(
    paths: Paths,
    recursive: Recursive = False,
    skip_trash: Annotated[bool, typer.Option("--skip-trash", help="Delete for good.")] = False,
    trash_interval: TrashInterval = 0,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Delete files, with -r directories and all below them.

    Where the NameNode keeps trash (fs.trash.interval), they are moved to
    /user/NAME/.Trash/Current and stay there for that long; what is in the trash is deleted.

    \b
    Examples:
      headrace fs rm /events/part-0.parquet
      headrace fs rm -r --skip-trash /events/old
      headrace fs mv /user/anna/.Trash/Current/events/part-0.parquet /events
    """
    with open_files(fs, data) as client, open_namenode(fs, data) as namenode:
        trash = None if skip_trash else Trash(namenode, trash_interval)
        for path in paths:
            if client.get_file_info(path).isdir and not recursive:
                raise UsageError(f"{path} is a directory; say -r to delete it and all below it")
            where = None if trash is None else trash.move(path)
            if where is not None:
                say(f"moved {path} to the trash: {where}")
                continue
            if not client.delete(path, recursive):
                raise HeadraceError(f"the NameNode does not delete {path}")
            say(f"deleted {path}")


@commands.command("expunge")
def expunge(
    immediate: Annotated[
        bool, typer.Option("--immediate", help="Delete all of it, not only what is old.")
    ] = False,
    trash_interval: TrashInterval = 0,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Empty your trash: what is older than the interval goes, the rest becomes a checkpoint.

    \b
    Examples:
      headrace fs expunge
      headrace fs expunge --immediate
    """
    with open_namenode(fs, data) as namenode:
        deleted, made = Trash(namenode, trash_interval).expunge(immediate=immediate)
    if as_json:
        print_json({"deleted": deleted, "checkpoint": None if immediate else made})
        return
    for path in deleted:
        say(f"deleted {path}")
    if made is not None and not immediate:
        say(f"made the checkpoint {made}")


@commands.command("chmod")
def chmod(
    mode: Annotated[str, typer.Argument(metavar="MODE", help="Octal, such as 640.")],
    paths: Paths,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Set permissions.

    \b
    Examples:
      headrace fs chmod 640 /events/part-0.parquet
      headrace fs chmod 1777 /scratch
    """
    permission = parse_mode(mode)
    with open_files(fs, data) as client:
        for path in paths:
            client.set_permission(path, permission)


@commands.command("chown")
def chown(
    owner: Annotated[str, typer.Argument(metavar="USER[:GROUP]", help="Or :GROUP alone.")],
    paths: Paths,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Set the owner, the group, or both.

    \b
    Examples:
      headrace fs chown anna /events
      headrace fs chown anna:staff /events /backup
    """
    user, _, group = owner.partition(":")
    with open_files(fs, data) as client:
        for path in paths:
            client.set_owner(path, user or None, group or None)


@commands.command("setrep")
def setrep(
    count: Annotated[int, typer.Argument(metavar="COUNT", min=1, help="Replicas.")],
    paths: Paths,
    fs: Fs = None,
    data: Data = None,
) -> None:
    """Set how many replicas the blocks of files have.

    \b
    Examples:
      headrace fs setrep 2 /backup/logs.tar
    """
    with open_files(fs, data) as client:
        for path in paths:
            if not client.set_replication(path, count):
                raise HeadraceError(f"{path} is no file")


@commands.command("xattr")
def xattr(
    path: PathArgument,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Such as user.origin.")] = None,
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="To set it.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it.")] = False,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show, set or remove extended attributes.

    \b
    Examples:
      headrace fs xattr /events user.origin sensors
      headrace fs xattr /events
      headrace fs xattr /events user.origin --remove
    """
    with open_namenode(fs, data) as namenode:
        if remove and name:
            namenode.remove_xattr(path, name)
        elif name and value is not None:
            namenode.set_xattr(path, name, value.encode())
        else:
            found = {
                key: text.decode("utf-8", "backslashreplace")
                for key, text in namenode.xattrs(path).items()
                if name in (None, key)
            }
            if as_json:
                print_json(found)
            else:
                print_table(["name", "value"], list(found.items()))


def parse_mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o1777:
        raise UsageError(f"{text!r} is not a permission in octal, such as 750")
    return mode
