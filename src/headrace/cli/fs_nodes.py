"""`headrace fs decommission|recommission|maintenance|balance`: the DataNodes themselves."""

import time
from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.base.errors import HeadraceError
from headrace.cli.app import Data, Json
from headrace.cli.fs_options import Fs
from headrace.cli.fs_target import open_namenode
from headrace.cli.output import print_json, progress, say
from headrace.client import balancer
from headrace.client.datanode_transfer import MoveRefused, replace_block
from headrace.client.namenode import AdminProgress, NameNodeClient

_POLL_S = 0.5
_IDLE_ROUNDS_MAX = 5
_HEARTBEATS = 3
_REPORTS_WAIT_S = 60.0
_UNDER_WAY = ("DECOMMISSION_INPROGRESS", "ENTERING_MAINTENANCE")

NodeName = Annotated[
    str, typer.Argument(metavar="NODE", help="HOST:PORT as `report` names it, or a host.")
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Until it may be stopped.")]


def add_to(commands: typer.Typer) -> None:
    commands.command("decommission")(decommission)
    commands.command("recommission")(recommission)
    commands.command("maintenance")(maintenance)
    commands.command("balance")(balance)
    commands.command("balancer", hidden=True)(balance)


def decommission(
    node: NodeName, wait: Wait = True, fs: Fs = None, data: Data = None, as_json: Json = False
) -> None:
    """Copy everything off a DataNode, for good: it may be stopped when this ends.

    \b
    Examples:
      headrace fs decommission 127.0.0.1:9866
      headrace fs decommission 127.0.0.1:9866 --no-wait
    """
    with open_namenode(fs, data) as namenode:
        namenode.set_admin_state(node, "DECOMMISSIONED")
        _follow(namenode, node, wait=wait, as_json=as_json)


def maintenance(
    node: NodeName,
    minutes: Annotated[
        int, typer.Option("--minutes", min=0, help="It ends by itself after so many; 0: never.")
    ] = 0,
    wait: Wait = True,
    fs: Fs = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Let a DataNode be away for a while: its blocks are readable, but not copied elsewhere.

    \b
    Examples:
      headrace fs maintenance 127.0.0.1:9866 --minutes 30
    """
    until_ms = int(time.time() * 1000) + minutes * 60_000 if minutes else 0
    with open_namenode(fs, data) as namenode:
        namenode.set_admin_state(node, "IN_MAINTENANCE", until_ms)
        _follow(namenode, node, wait=wait, as_json=as_json)


def recommission(node: NodeName, fs: Fs = None, data: Data = None, as_json: Json = False) -> None:
    """Take a DataNode back into service.

    \b
    Examples:
      headrace fs recommission 127.0.0.1:9866
    """
    with open_namenode(fs, data) as namenode:
        namenode.set_admin_state(node, "IN_SERVICE")
        _follow(namenode, node, wait=False, as_json=as_json)


def _follow(namenode: NameNodeClient, node: str, *, wait: bool, as_json: bool) -> None:
    found = namenode.admin_progress(node)
    with progress("blocks") as bar:
        left = _blocks_left(found)
        while wait and any(one.state in _UNDER_WAY for one in found):
            time.sleep(_POLL_S)
            found = namenode.admin_progress(node)
            now = _blocks_left(found)
            if left is not None and now is not None and now < left:
                bar.advance(left - now)
            if now is not None and now != left:
                say(f"{now} blocks to go")
            left = now
    if as_json:
        print_json(
            [
                {"name": one.name, "state": one.state, "blocks_waiting": one.blocks_waiting}
                for one in found
            ]
        )
        return
    for one in found:
        print(f"{one.name} is {one.state.lower().replace('_', ' ')}")


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
