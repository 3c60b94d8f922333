"""`headrace cluster rebalance|decommission`: plans of moves, shown or carried out."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from headrace.base.errors import UsageError
from headrace.cli.app import BootstrapServers, Data, Json
from headrace.cli.output import Progress, print_json, print_table, progress, say
from headrace.cli.target import bootstrap_of, open_cluster
from headrace.client import cluster_changes, rebalance
from headrace.client.cluster import Cluster
from headrace.client.cluster_state import ClusterState, describe_state
from headrace.client.errors import ClientError
from headrace.client.quorum import QuorumClient
from headrace.client.replica_plan import Move, Plan, plan

MB = 1_000_000
_SAY_EVERY_S = 10.0
_POLL_S = 0.5
_ROUNDS_MAX = 10
_SHOWN_MAX = 50

Apply = Annotated[bool, typer.Option("--apply", help="Do it; without this the plan is shown.")]
Throttle = Annotated[
    float | None,
    typer.Option(
        "--throttle",
        metavar="MB/s",
        min=0.001,
        help="What each broker may give and take for moves, in million bytes a second.",
    ),
]
AtOnce = Annotated[
    int, typer.Option("--at-once", min=1, help="Partitions that move at the same time.")
]
BrokerId = Annotated[int, typer.Argument(metavar="ID", help="The broker's node id.")]


def add_to(commands: typer.Typer) -> None:
    commands.command("rebalance")(rebalance_brokers)
    commands.command("decommission")(decommission)


def rebalance_brokers(
    show: Annotated[bool, typer.Option("--plan", help="Show the plan; the default.")] = False,
    apply: Apply = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="End all moves under way.")] = False,
    throttle: Throttle = None,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="ID,…", help="Only among these.")
    ] = None,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0, help="Per cent that a broker may differ.")
    ] = 10.0,
    at_once: AtOnce = rebalance.MOVES_AT_ONCE,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Even out bytes and leadership over the brokers, with racks kept apart and few moves.

    Stopped with Ctrl-C, moves that were begun go on; run again, it waits for them and goes on.

    \b
    Examples:
      headrace cluster rebalance                          what would be moved
      headrace cluster rebalance --apply --throttle 50    do it, at 50 MB/s a broker
      headrace cluster rebalance --apply --brokers 1,2,3  only among these
      headrace cluster rebalance --cancel                 back to where it was
    """
    if show + apply + cancel > 1:
        raise UsageError("give one of --plan, --apply and --cancel")
    among = _ids(brokers)
    with open_cluster(bootstrap_servers, data) as cluster:
        if cancel:
            _cancel(cluster, as_json=as_json)
            return

        def planner(state: ClusterState) -> Plan:
            for broker_id in among or ():
                state.broker(broker_id)
            return plan(
                state.placed_brokers(),
                state.placed_partitions(),
                among=among,
                threshold_percent=threshold,
            )

        if not apply:
            _show(cluster, planner(describe_state(cluster)), as_json=as_json)
            return
        with _watcher() as watcher:
            done = rebalance.Rebalance(
                cluster, watcher, throttle_bytes=_rate(throttle), moves_at_once=at_once
            ).run(planner)
    _tell(done, {}, "rebalanced", as_json=as_json)


def decommission(
    broker_id: BrokerId,
    apply: Apply = False,
    throttle: Throttle = None,
    at_once: AtOnce = rebalance.MOVES_AT_ONCE,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it is stopped; then it is unregistered.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Move everything off a broker, racks kept, and forget it once it is stopped.

    It is cordoned first. When it is empty, stop it and run this again: a broker that is empty and
    stopped is unregistered. `headrace cluster uncordon ID` changes your mind.

    \b
    Examples:
      headrace cluster decommission 4                     what would be moved
      headrace cluster decommission 4 --apply             empty it
      headrace node stop broker-4 && headrace cluster decommission 4 --apply
    """
    with open_cluster(bootstrap_servers, data) as cluster:
        state = describe_state(cluster)
        broker = state.broker(broker_id)

        def planner(now: ClusterState) -> Plan:
            return plan(
                now.placed_brokers(),
                now.placed_partitions(),
                leaving={broker_id},
                is_balancing=False,
            )

        if not apply:
            _show(cluster, planner(state), as_json=as_json)
            return
        planner(state)  # what can't be done is said before anything is changed
        if not broker.is_cordoned:
            cluster_changes.cordon(cluster, broker_id)
        with _watcher() as watcher:
            done = rebalance.Rebalance(
                cluster, watcher, throttle_bytes=_rate(throttle), moves_at_once=at_once
            ).run(planner, _ROUNDS_MAX)
        _refuse_if_held(describe_state(cluster), broker_id)
        _warn_of_voter(bootstrap_of(bootstrap_servers, data), broker_id)
        is_stopped = _await_stopped(cluster, broker_id) if wait else False
        is_stopped = is_stopped or describe_state(cluster).broker(broker_id).is_fenced
        if is_stopped:
            cluster_changes.unregister(cluster, describe_state(cluster), broker_id, force=False)
    facts = {"id": broker_id, "empty": True, "registered": not is_stopped}
    ending = "is empty and forgotten" if is_stopped else "is empty: stop it, then run this again"
    _tell(done, facts, f"broker {broker_id} {ending}", as_json=as_json)


def _refuse_if_held(state: ClusterState, broker_id: int) -> None:
    left = [part for part in state.partitions if broker_id in part.replicas]
    headless = [part for part in left if part.leader < 0]
    if headless:
        raise ClientError(
            f"{len(headless)} partitions have no leader to be copied from, such as "
            f"{headless[0].topic}-{headless[0].index}: start broker {broker_id} again if it is "
            "down, or delete their topics"
        )
    if left:
        raise ClientError(f"broker {broker_id} still has replicas: run this again to go on")


def _await_stopped(cluster: Cluster, broker_id: int) -> bool:
    say(f"broker {broker_id} is empty: stop it now; this waits …")
    while not describe_state(cluster).broker(broker_id).is_fenced:
        time.sleep(_POLL_S)
    return True


def _warn_of_voter(servers: str, broker_id: int) -> None:
    voters = [voter.node_id for voter in QuorumClient(servers).describe().voters]
    if broker_id in voters:
        say(
            f"node {broker_id} is also a voter of the metadata quorum: before it is stopped, "
            f"`headrace quorum remove {broker_id}`"
        )


def _cancel(cluster: Cluster, *, as_json: bool) -> None:
    keys = rebalance.cancel(cluster)
    if as_json:
        print_json({"cancelled": [{"topic": name, "partition": index} for name, index in keys]})
    else:
        say(f"{len(keys)} moves cancelled" if keys else "nothing is on the move")


# -- showing -----------------------------------------------------------------------------


def _show(cluster: Cluster, made: Plan, *, as_json: bool) -> None:
    moving = len(describe_state(cluster).moving)
    if as_json:
        print_json(
            {
                "moves": [_move_json(move) for move in made.moves],
                "moved_bytes": made.moved_bytes,
                "moving_already": moving,
                "brokers": [
                    {"id": each, "before": _share(made.before[each]), "after": _share(after)}
                    for each, after in made.after.items()
                ],
            }
        )
        return
    if made.moves:
        print_table(
            ("topic", "partition", "replicas", "new replicas", "bytes to copy"),
            [
                (m.topic, m.index, _joined(m.before), _joined(m.after), m.moved_bytes)
                for m in made.moves[:_SHOWN_MAX]
            ],
        )
        if len(made.moves) > _SHOWN_MAX:
            print(f"… and {len(made.moves) - _SHOWN_MAX} more; --json lists all")
    rows = []
    for each, after in made.after.items():
        was = made.before[each]
        pairs = (
            (was.replicas, after.replicas),
            (was.leaders, after.leaders),
            (was.size_bytes, after.size_bytes),
        )
        rows.append([each, *(f"{a} → {b}" if a != b else str(a) for a, b in pairs)])
    print_table(("broker", "replicas", "preferred leaders", "bytes"), rows)
    if moving:
        say(f"{moving} partitions are on the move already")
    say(
        f"{len(made.moves)} moves, {made.moved_bytes} bytes to copy; --apply does it"
        if made.moves
        else "nothing to move"
    )


def _joined(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _share(share: Any) -> dict[str, int]:
    return {"replicas": share.replicas, "leaders": share.leaders, "bytes": share.size_bytes}


def _move_json(move: Move) -> dict[str, Any]:
    return {
        "topic": move.topic,
        "partition": move.index,
        "before": list(move.before),
        "after": list(move.after),
        "bytes": move.moved_bytes,
    }


def _tell(done: rebalance.Done, facts: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                **facts,
                "moved": done.moved,
                "moved_bytes": done.moved_bytes,
                "elected": done.elected,
            }
        )
        return
    for (topic, index), reason in done.unelected.items():
        say(f"{topic}-{index} has not its preferred leader: {reason}")
    say(f"{sentence}; {done.moved} partitions moved, {done.moved_bytes} bytes")


# -- watching ----------------------------------------------------------------------------


class _Screen:
    """A bar on a terminal, else a sentence now and then."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._context: Any = None
        self._shown = 0
        self._total = 0
        self._said_s = time.monotonic()

    def on_begun(self, total_bytes: int, partitions: int) -> None:
        self.close()
        self._total, self._shown = total_bytes, 0
        self._context = progress(f"moving {partitions} partitions", total_bytes)
        self._bar = self._context.__enter__()

    def on_progress(self, done_bytes: int, partitions_left: int) -> None:
        if self._bar is not None and done_bytes > self._shown:
            self._bar.advance(done_bytes - self._shown)
            self._shown = done_bytes
        if not sys.stderr.isatty() and time.monotonic() - self._said_s >= _SAY_EVERY_S:
            self._said_s = time.monotonic()
            say(f"{done_bytes} of {self._total} bytes, {partitions_left} partitions to go")

    def on_throttle_left(self) -> None:
        self.close()
        say(
            "moves that were begun go on, throttled: run this again to wait for them and lift the "
            "throttle, or `headrace cluster rebalance --cancel` ends both"
        )

    def on_throttle_found(self) -> None:
        self.close()
        say("a throttle that an earlier run had left is lifted")

    def close(self) -> None:
        if self._context is not None:
            self._context.__exit__(None, None, None)
            self._context = self._bar = None


@contextmanager
def _watcher() -> Iterator[_Screen]:
    screen = _Screen()
    try:
        yield screen
    except KeyboardInterrupt:
        say("moves that were begun go on; run this again to go on, --cancel ends them")
        raise
    finally:
        screen.close()


def _rate(throttle: float | None) -> int | None:
    return None if throttle is None else int(throttle * MB)


def _ids(text: str | None) -> set[int] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"--brokers {text!r}: write ids with commas between, such as 1,2,3")
    return {int(word) for word in words}
