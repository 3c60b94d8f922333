"""`headrace fs decommission|recommission|maintenance|balance`: the DataNodes themselves."""

import sys
import time
from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.base.errors import HeadraceError
from headrace.cli.app import Json
from headrace.cli.fs_options import Data, Fs
from headrace.cli.fs_target import open_namenode
from headrace.cli.output import print_json, progress, say
from headrace.client import balancer
from headrace.client.datanode_transfer import MoveRefused, replace_block
from headrace.client.leaving_nodes import NORMAL, nodes_named, open_files_on, rest_without
from headrace.client.namenode import AdminProgress, DatanodeReport, NameNodeClient
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

_POLL_S = 0.5
_IDLE_ROUNDS_MAX = 5
_HEARTBEATS = 3
_REPORTS_WAIT_S = 60.0
_SAY_EVERY_S = 10.0
_NAME_AFTER_S = 5.0
_NAMED_MAX = 3
_UNDER_WAY = ("DECOMMISSION_INPROGRESS", "ENTERING_MAINTENANCE")
_RESTING = ("entering_maintenance", "in_maintenance")

NodeName = Annotated[
    str, typer.Argument(metavar="NODE", help="HOST:PORT as `report` names it, or a host.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Though those that stay can't hold every replica.")
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Until it may be stopped.")]


def add_to(commands: typer.Typer) -> None:
    commands.command("decommission")(decommission)
    commands.command("recommission")(recommission)
    commands.command("maintenance")(maintenance)
    commands.command("balance")(balance)
    commands.command("balancer", hidden=True)(balance)


def decommission(
    node: NodeName,
    wait: Wait = True,
    force: Force = False,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Copy everything off a DataNode, for good: it may be stopped when this ends.

    A host's name stands for all DataNodes on it. Nothing is begun if those that stay could not hold
    every replica; run again, it waits for what was begun.

    \b
    Examples:
      headrace fs decommission 127.0.0.1:9866
      headrace fs decommission 127.0.0.1:9866 --no-wait --json
      headrace fs decommission storage-7.example
    """
    with open_namenode(fs, data) as namenode:
        found = nodes_named(node, namenode.datanodes())
        fresh = [one for one in found if one.state in (NORMAL, *_RESTING)]
        if fresh and not force:
            objection = rest_without(namenode, fresh).objection()
            if objection is not None:
                names = ", ".join(one.name for one in fresh)
                raise HeadraceError(
                    f"{names} can't leave: {objection}; --force has them leave all the same, which "
                    "may never be done"
                )
        _order(namenode, found, node, "DECOMMISSIONED", doing="leaving")
        _follow(namenode, node, wait=wait, as_json=as_json)


def maintenance(
    node: NodeName,
    minutes: Annotated[
        int, typer.Option("--minutes", min=0, help="It ends by itself after so many; 0: never.")
    ] = 0,
    wait: Wait = True,
    force: Force = False,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let a DataNode be away for a while: its blocks are readable, but not copied elsewhere.

    A host's name stands for all DataNodes on it.

    \b
    Examples:
      headrace fs maintenance 127.0.0.1:9866 --minutes 30
    """
    until_ms = int(time.time() * 1000) + minutes * 60_000 if minutes else 0
    with open_namenode(fs, data) as namenode:
        found = nodes_named(node, namenode.datanodes())
        fresh = [one for one in found if one.state == NORMAL]
        if fresh and not force and rest_without(namenode, fresh).nodes == 0:
            raise HeadraceError(
                f"{', '.join(one.name for one in fresh)} can't be away: no DataNode would stay in "
                "service; --force has them go all the same"
            )
        _order(namenode, found, node, "IN_MAINTENANCE", until_ms, doing="going into maintenance")
        _follow(namenode, node, wait=wait, as_json=as_json)


def recommission(node: NodeName, fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Take a DataNode back into service.

    \b
    Examples:
      headrace fs recommission 127.0.0.1:9866
    """
    with open_namenode(fs, data) as namenode:
        found = nodes_named(node, namenode.datanodes())
        _order(namenode, found, node, "IN_SERVICE", doing="coming back")
        _follow(namenode, node, wait=False, as_json=as_json)


def _order(
    namenode: NameNodeClient,
    found: list[DatanodeReport],
    node: str,
    wish: str,
    until_ms: int = 0,
    *,
    doing: str,
) -> None:
    say(f"{doing}: {', '.join(one.name for one in found)}")
    try:
        namenode.set_admin_state(node, wish, until_ms)
    except RemoteError as error:
        if error.class_name not in (java.RPC_NO_SUCH_PROTOCOL, java.RPC_NO_SUCH_METHOD):
            raise
        raise HeadraceError(
            "this NameNode takes such orders by its lists alone (dfs.hosts.exclude and "
            "`hdfs dfsadmin -refreshNodes`): it is not Headrace's"
        ) from None


def _follow(namenode: NameNodeClient, node: str, *, wait: bool, as_json: bool) -> None:
    found = namenode.admin_progress(node)
    if wait and _is_under_way(found):
        try:
            found = _await_done(namenode, node, found)
        except KeyboardInterrupt:
            say(f"it goes on; `headrace fs recommission {node}` ends it, the same command waits")
            raise
    if as_json:
        print_json(
            [
                {"name": one.name, "state": one.state, "blocks_waiting": one.blocks_waiting}
                for one in found
            ]
        )
        return
    for one in found:
        left = f", {one.blocks_waiting} blocks to go" if one.blocks_waiting else ""
        print(f"{one.name} is {one.state.lower().replace('_', ' ')}{left}")


def _await_done(
    namenode: NameNodeClient, node: str, found: list[AdminProgress]
) -> list[AdminProgress]:
    """A bar on a terminal, else a sentence now and then."""
    while _blocks_left(found) is None and _is_under_way(found):
        time.sleep(_POLL_S)
        found = namenode.admin_progress(node)
    total = left = _blocks_left(found) or 0
    say(f"{total} blocks need replicas elsewhere")
    began_s = said_s = time.monotonic()
    has_named = False
    with progress("blocks", total) as bar:
        while _is_under_way(found):
            time.sleep(_POLL_S)
            found = namenode.admin_progress(node)
            now = _blocks_left(found)
            if now is not None and now < left:
                bar.advance(left - now)
                left = now
            if not has_named and time.monotonic() - began_s >= _NAME_AFTER_S:
                has_named = True
                _name_open_files(namenode, found)
            if not sys.stderr.isatty() and time.monotonic() - said_s >= _SAY_EVERY_S:
                said_s = time.monotonic()
                say(f"{left} of {total} blocks to go")
    return found


def _name_open_files(namenode: NameNodeClient, found: list[AdminProgress]) -> None:
    under_way = {one.name for one in found if one.state in _UNDER_WAY}
    paths = open_files_on(namenode, under_way)
    if paths:
        some = ", ".join(paths[:_NAMED_MAX]) + (", …" if len(paths) > _NAMED_MAX else "")
        say(
            f"{len(paths)} files are being written there and may hold it up: {some}; "
            "`headrace fs open-files` tells by whom"
        )


def _is_under_way(found: list[AdminProgress]) -> bool:
    return any(one.state in _UNDER_WAY for one in found)


def _blocks_left(found: list[AdminProgress]) -> int | None:
    counts = [one.blocks_waiting for one in found]
    return None if None in counts else sum(count or 0 for count in counts)


def balance(
    threshold: Annotated[
        float, typer.Option("--threshold", min=0, help="Per cent that a DataNode may differ.")
    ] = 10.0,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Move blocks from full DataNodes to empty ones until all are about equally full.

    \b
    Examples:
      headrace fs balance
      headrace fs balance --threshold 2
    """
    done = _Balanced()
    with open_namenode(fs, data) as namenode, progress("blocks moved") as bar:
        pool_id = namenode.block_pool()
        while not done.gave_up:
            infos = namenode.datanode_infos()
            nodes = balancer.weigh(infos)
            if balancer.is_balanced(nodes, threshold):
                break
            racks = {info.id.datanodeUuid: info.location for info in infos}
            before = done.moved
            for source, target, wanted in list(balancer.pairs(nodes, threshold)):
                blocks = namenode.blocks_of(source.info.id, 2 * wanted)
                for move in balancer.moves(source, target, wanted, blocks, racks.__getitem__):
                    _move(pool_id, move, done)
                    bar.advance()
            done.idle_rounds = done.idle_rounds + 1 if done.moved == before else 0
            _await_reports(namenode)
    if as_json:
        print_json(
            {
                "balanced": not done.gave_up,
                "moved": done.moved,
                "moved_bytes": done.moved_bytes,
                "failed": done.failed,
            }
        )
    else:
        print(f"{done.moved} blocks moved, {done.moved_bytes} bytes; {done.failed} moves failed")
    if done.gave_up:
        raise HeadraceError("there is no block left that may be moved, and it is not balanced")


@dataclass(slots=True)
class _Balanced:
    moved: int = 0
    moved_bytes: int = 0
    failed: int = 0
    idle_rounds: int = 0

    @property
    def gave_up(self) -> bool:
        return self.idle_rounds >= _IDLE_ROUNDS_MAX


def _move(pool_id: str, move: balancer.Move, done: _Balanced) -> None:
    block = balancer.in_pool(pool_id, move.block)
    try:
        replace_block(block, move.source.info, move.target.info)
    except MoveRefused as refused:
        done.failed += 1
        say(f"blk_{move.block.blockId} stays on {move.source.name}: {refused}")
    else:
        done.moved += 1
        done.moved_bytes += move.block.numBytes


def _await_reports(namenode: NameNodeClient) -> None:
    """Three heartbeats of everybody: one brings the order to delete, another the new figures."""
    heard: dict[str, set[int]] = {}
    deadline = time.monotonic() + _REPORTS_WAIT_S
    while time.monotonic() < deadline:
        for info in namenode.datanode_infos():
            heard.setdefault(info.id.datanodeUuid, set()).add(info.lastUpdate)
        if all(len(times) > _HEARTBEATS for times in heard.values()):
            return
        time.sleep(_POLL_S)
