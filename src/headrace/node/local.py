"""The supervisor behind `headrace up`: real processes, kept running.

Owns: the life of a local cluster in one directory: lock it, start every node, wait until all
answer, publish cluster.json, start again what dies, take commands, stop all in order.
Must not know: what is printed for people (`cli.local`).

Invariants: cluster.json exists only between the moment when all nodes have answered and the
beginning of a clean stop; it names the processes of this moment; nothing here blocks for
longer than a node's one-second answer, so a dead node is back within a second.
"""

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.node.local_answers import listens, node_answers
from headrace.node.local_control import ControlServer
from headrace.node.local_files import DirectoryLock, Layout, read_json, replace_json
from headrace.node.local_hdfs import make_directories, reason_to_wait, write_hadoop_configuration
from headrace.node.local_plan import (
    ClusterPlan,
    NodePlan,
    Options,
    Plan,
    file_defaults,
    plan_of,
    replication_defaults,
)
from headrace.node.local_process import NodeProcess, State, stop_leftovers
from headrace.node.local_quorum import LocalQuorum, form_quorum
from headrace.node.local_settings import split_settings

START_TIMEOUT_S = 45.0
TICK_S = 0.2
RESTART_DELAY_S_MIN = 0.05
RESTART_DELAY_S_MAX = 0.8
"""A node that dies again and again is still tried within the promised second."""

STEADY_S = 10.0
"""A node that ran this long has recovered: the next restart is immediate again."""


class StartFailed(HeadraceError):
    """A node ended or stayed silent before the cluster was ready."""


@dataclass(slots=True)
class _Care:
    """What the supervisor intends with one node."""

    process: NodeProcess
    started_s: float = 0.0
    restart_at_s: float | None = None
    restart_delay_s: float = RESTART_DELAY_S_MIN
    restart_after_stop: bool = False


class Supervisor:
    """`run` returns when the cluster has been stopped."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.layout = Layout(options.directory)
        self._settings = split_settings(options.settings, with_files=options.datanodes > 0)
        self._plan = ClusterPlan((), None, ())
        self._say = say
        self._cares: dict[str, _Care] = {}
        self._stop_signals = 0
        self._selector = selectors.DefaultSelector()

    def run(self, on_ready: Callable[[dict[str, Any]], None]) -> None:
        self.layout.make()
        lock = DirectoryLock(self.layout)
        lock.acquire()
        try:
            self._prepare()
            with self._events():
                try:
                    self._start_all()
                    if not self._stop_signals:
                        on_ready(self._publish())
                    while not self._stop_signals:
                        self._wait(TICK_S)
                        self._tick()
                finally:
                    self.layout.cluster.unlink(missing_ok=True)
                    self._stop_all()
        finally:
            lock.release()

    def _prepare(self) -> None:
        self.layout.cluster.unlink(missing_ok=True)
        leftovers = stop_leftovers(read_json(self.layout.pids), self.layout.directory)
        if leftovers:
            self._say(f"stopped what an earlier supervisor left: pid {leftovers}")
        remembered = read_json(self.layout.ports)
        self._plan = plan = plan_of(self.options, remembered)
        replace_json(self.layout.ports, {**remembered, **plan.remembered_ports()})
        self.layout.write_client_properties(plan.bootstrap_servers)
        files = {**file_defaults(self.options.datanodes), **self._settings.files}
        write_hadoop_configuration(self.layout, plan, files)
        quorum = form_quorum(self.layout, plan.log, self._settings.log)
        for node in plan.nodes:
            told = self._log_settings(quorum, node) if isinstance(node, NodePlan) else files
            self._cares[node.name] = _Care(self._process_of(node, told))

    def _log_settings(self, quorum: LocalQuorum, plan: NodePlan) -> dict[str, str]:
        return {
            **quorum.settings_of(plan),
            **replication_defaults(self.options.brokers),
            **self._settings.log,
        }

    def _process_of(self, plan: Plan, settings: dict[str, str]) -> NodeProcess:
        layout = self.layout
        return NodeProcess(plan, layout.data_of(plan.name), layout.log_of(plan.name), settings)

    def _start_all(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        self._launch_all(deadline_s)
        silent = list(self._cares.values())
        while not self._stop_signals:
            self._raise_if_ended()
            silent = [care for care in silent if not node_answers(care.process.plan.described())]
            names = ", ".join(care.process.plan.name for care in silent)
            waiting = f"{names} did not answer" if silent else reason_to_wait(self._plan)
            if not waiting:
                break
            if time.monotonic() >= deadline_s:
                raise StartFailed(
                    f"not ready within {START_TIMEOUT_S:g} s: {waiting}; see {self.layout.logs}"
                )
            self._wait(0.05)
        if self._plan.namenode is not None and not self._stop_signals:
            make_directories(self._plan.namenode)

    def _launch_all(self, deadline_s: float) -> None:
        """DataNodes last: one that finds no NameNode waits half a second before it looks again."""
        cares = self._cares
        last = [cares[node.name] for node in self._plan.datanodes]
        for care in cares.values():
            if care not in last:
                self._start(care)
        namenode = self._plan.namenode
        while namenode is not None and not listens(namenode.listen) and not self._stop_signals:
            self._raise_if_ended()
            if time.monotonic() >= deadline_s:
                break
            self._wait(0.02)
        for care in last:
            # Somebody may have asked for it by name, or for the end of it all, meanwhile.
            if care.process.state is State.STOPPED and not self._stop_signals:
                self._start(care)

    def _raise_if_ended(self) -> None:
        for care in self._cares.values():
            if care.process.tick(time.monotonic()) is not None:
                raise StartFailed(
                    f"{care.process.plan.name} ended while it started; the end of "
                    f"{care.process.log}:\n{care.process.log_tail()}"
                )

    def _start(self, care: _Care) -> None:
        care.process.start()
        care.started_s = time.monotonic()
        care.restart_at_s = None
        self._remember_pids()

    def _remember_pids(self) -> None:
        pids = {name: care.process.pid for name, care in self._cares.items()}
        replace_json(self.layout.pids, pids)
        if self.layout.cluster.exists():
            self._publish()

    def _publish(self) -> dict[str, Any]:
        plan = self._plan
        described: dict[str, Any] = {
            "bootstrap_servers": plan.bootstrap_servers,
            "controllers": plan.controllers,
            "fs": None if plan.namenode is None else plan.namenode.url,
            "web": None if plan.namenode is None else f"http://{plan.namenode.metrics}",
            "nodes": [self._describe(care.process) for care in self._cares.values()],
        }
        replace_json(self.layout.cluster, described)
        return described

    def _describe(self, process: NodeProcess) -> dict[str, Any]:
        return {**process.plan.described(), "pid": process.pid, "log": str(process.log)}

    @contextlib.contextmanager
    def _events(self) -> Iterator[None]:
        """While this is open, `_wait` wakes for signals, ended children and commands."""
        with (
            _signals(self._on_stop_signal) as wake,
            contextlib.closing(ControlServer(self.layout)) as control,
            self._selector,
        ):
            self._selector.register(wake, selectors.EVENT_READ, lambda: _drain(wake))
            self._selector.register(
                control, selectors.EVENT_READ, lambda: control.serve_one(self._on_command)
            )
            yield

    def _wait(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()

    def _tick(self) -> None:
        now_s = time.monotonic()
        for care in self._cares.values():
            was_stopping = care.process.state is State.STOPPING
            status = care.process.tick(now_s)
            if status is not None:
                self._on_exit(care, status, was_stopping, now_s)
            if care.restart_at_s is not None and now_s >= care.restart_at_s:
                care.process.restart_count += 1
                self._start(care)

    def _on_exit(self, care: _Care, status: int, was_stopping: bool, now_s: float) -> None:
        self._remember_pids()
        name = care.process.plan.name
        if was_stopping:
            if care.restart_after_stop:
                care.restart_after_stop = False
                care.restart_at_s = now_s
            return
        how = f"signal {-status}" if status < 0 else f"status {status}"
        if not self.options.restart:
            self._say(f"{name} ended with {how}; it stays down (--no-restart)")
            return
        if now_s - care.started_s >= STEADY_S:
            care.restart_delay_s = RESTART_DELAY_S_MIN
        self._say(f"{name} ended with {how}; starting it again")
        care.restart_at_s = now_s + care.restart_delay_s
        care.restart_delay_s = min(care.restart_delay_s * 2, RESTART_DELAY_S_MAX)

    def _on_command(self, asked: dict[str, Any]) -> dict[str, Any]:
        name = asked.get("command")
        if name == "status":
            return {"ok": True, "pid": os.getpid(), "nodes": self._states()}
        if name == "down":
            self._stop_signals = 1
            return {"ok": True, "pid": os.getpid()}
        care = self._cares.get(str(asked.get("node")))
        if care is None:
            return {"error": f"no node {asked.get('node')!r}: there is {', '.join(self._cares)}"}
        before = care.process.pid
        match name:
            case "start":
                if care.process.state is State.STOPPED:
                    self._start(care)
                elif care.process.state is State.STOPPING:
                    care.restart_after_stop = True
            case "stop":
                care.restart_at_s = None
                care.restart_after_stop = False
                care.process.stop(time.monotonic())
            case "restart":
                care.restart_after_stop = care.process.state is not State.STOPPED
                if care.restart_after_stop:
                    care.process.stop(time.monotonic())
                else:
                    self._start(care)
            case _:
                return {"error": f"no command {name!r}"}
        return {"ok": True, "pid": before}

    def _states(self) -> list[dict[str, Any]]:
        return [
            {
                **self._describe(care.process),
                "state": care.process.state.value,
                "restarts": care.process.restart_count,
            }
            for care in self._cares.values()
        ]

    def _on_stop_signal(self) -> None:
        self._stop_signals += 1
        if self._stop_signals > 1:
            # The second Ctrl-C means: now.
            for care in self._cares.values():
                care.process.kill()

    def _stop_all(self) -> None:
        """Brokers and DataNodes first: while the others run, they can say goodbye."""
        cares = list(self._cares.values())
        self._stop_and_wait([care for care in cares if not care.process.plan.stops_last])
        self._stop_and_wait(cares)
        self._remember_pids()

    def _stop_and_wait(self, cares: list[_Care]) -> None:
        for care in cares:
            care.process.stop(time.monotonic())
        while any(care.process.state is not State.STOPPED for care in cares):
            for care in cares:
                status = care.process.tick(time.monotonic())
                if status:
                    self._say(f"{care.process.plan.name} did not stop cleanly: status {status}")
            self._wait(TICK_S)


def _drain(wake: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while wake.recv(4096):
            pass


@contextlib.contextmanager
def _signals(on_stop: Callable[[], None]) -> Iterator[socket.socket]:
    """Wake the loop at the end of a child; count the signals that ask to stop."""
    receiver, sender = socket.socketpair()
    receiver.setblocking(False)
    sender.setblocking(False)
    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in (*stopping, signal.SIGCHLD)}
    for number in stopping:
        signal.signal(number, lambda *_: on_stop())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        yield receiver
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        receiver.close()
        sender.close()
