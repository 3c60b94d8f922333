"""Scenarios as text: a line of command, and below it what the quorum did.

    # what the scenario is about
    > voters 3
    > leader
       812 2 prospective in epoch 0
       …

Owns: the commands and the making of a transcript. Must not know: files, pytest. `perform` takes the
text of a scenario, reads its comments and commands and gives the whole text as it should be; a test
compares the two, or a person rewrites the file and reads the difference.
"""

from collections.abc import Callable

from headrace.quorum.events import Resign
from headrace.testing.quorum.disk import Truncate
from headrace.testing.quorum.faults import Faults
from headrace.testing.quorum.network import Weather
from headrace.testing.quorum.replica import Replica
from headrace.testing.quorum.simulation import Simulation
from headrace.testing.quorum.tracing import TracingCheckers

PATIENCE_MS = 20_000


def perform(text: str) -> str:
    """The transcript of the commands in `text`."""
    scenario = Scenario()
    out: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            out.append(line)
            out += scenario.command(line[2:])
        elif not line.strip() or line.startswith("#"):
            out.append(line)
    return "\n".join(out).rstrip() + "\n"


class Scenario:
    world: Simulation
    checkers: TracingCheckers
    faults: Faults

    def __init__(self) -> None:
        self._commands: dict[str, Callable[..., list[str] | None]] = {
            "voters": self._voters,
            "leader": self._leader,
            "settle": self._settle,
            "run": self._run,
            "propose": self._propose,
            "isolate": self._isolate,
            "cut": self._cut,
            "heal": self._heal,
            "kill": lambda id_: self._replica(id_).stop(power_cut=False),
            "power-cut": lambda id_: self._replica(id_).stop(power_cut=True),
            "start": lambda id_: self._replica(id_).start(),
            "pause": self._pause,
            "resume": lambda id_: self._replica(id_).resume(),
            "resign": lambda id_: self._replica(id_).post(Resign()),
            "lose-disk": self._lose_disk,
            "forget": self._forget,
            "snapshot": lambda id_: self._replica(id_).take_snapshot([]),
            "add": self._add,
            "remove": self._remove,
            "elections": lambda: [f"{self.checkers.elections.election_count:6}"],
            "state": self._state,
        }

    def command(self, line: str) -> list[str]:
        name, *arguments = line.split()
        told = self._commands[name](*arguments)
        lines, self.checkers.lines = self.checkers.lines, []
        return lines + (told or [])

    # -- the world -----------------------------------------------------------------------------

    def _voters(self, voter_count: str, observers: str = "", observer_count: str = "0") -> None:
        assert observers in ("", "observers")
        weather = Weather(delay_ms_max=0, refusing=0.0)
        self.world = Simulation(1, int(voter_count), int(observer_count), weather)
        self.faults = Faults(self.world, 1)
        self.world.checkers = self.checkers = TracingCheckers(self.world.format_voters)
        self.world.start_all()

    def _replica(self, id_: str) -> Replica:
        return self.world.replicas[int(id_)]

    def _run(self, duration_ms: str) -> None:
        self.world.run_for(int(duration_ms))

    def _leader(self) -> None:
        """Until one leads and has committed an entry of its epoch, and then a little."""
        known = max((r.node.epoch for r in self.world.leaders()), default=0)

        def is_new() -> bool:
            leader = self.world.leader()
            if leader is None or leader.node.epoch < known:
                return False
            return leader.node.log.epoch_before(leader.node.high_watermark) == leader.node.epoch

        assert self.world.run_until(is_new, PATIENCE_MS), "no leader"

    def _settle(self) -> None:
        """Until all that are up agree."""

        def is_whole() -> bool:
            ends = {r.node.log.end_offset for r in self.world.replicas.values() if r.is_up}
            applied = {r.machine.applied_offset for r in self.world.replicas.values() if r.is_up}
            return len(ends) == 1 and ends == applied

        assert self.world.run_until(is_whole, PATIENCE_MS), "no agreement"

    # -- clients and tools ---------------------------------------------------------------------

    def _propose(self, count: str, at: str = "", id_: str = "") -> None:
        assert at in ("", "at")
        replica = self._replica(id_) if id_ else self.world.leader()
        assert replica is not None, "no leader to propose to"
        for _ in range(int(count)):
            self.world.propose(replica)

    def _add(self, id_: str) -> None:
        leader = self.world.leader()
        assert leader is not None
        self.faults._add(leader, self._replica(id_))

    def _remove(self, id_: str) -> None:
        leader = self.world.leader()
        assert leader is not None
        voter = leader.node.voters.latest.with_id(int(id_))
        assert voter is not None
        self.faults._remove(leader, voter.key)

    # -- faults --------------------------------------------------------------------------------

    def _isolate(self, id_: str) -> None:
        self.world.network.isolate(int(id_), self.world.ids)

    def _cut(self, way: str) -> None:
        """`1>2`: 2 does not hear 1."""
        source, target = way.split(">")
        self.world.network.cut.add((int(source), int(target)))

    def _heal(self) -> None:
        self.world.network.heal()

    def _pause(self, id_: str) -> None:
        self._replica(id_).is_paused = True

    def _lose_disk(self, id_: str) -> None:
        self.world.replace_disk(self._replica(id_))

    def _forget(self, id_: str, end_offset: str) -> None:
        """A disk that lied about its syncs: entries from `end_offset` on are gone."""
        self.checkers.is_judging = False
        disk = self._replica(id_).disk
        disk.write(Truncate(int(end_offset)))
        disk.sync(disk.pending_count)

    # -- looking -------------------------------------------------------------------------------

    def _state(self) -> list[str]:
        return [_state_of(replica) for replica in self.world.replicas.values()]


def _state_of(replica: Replica) -> str:
    if not replica.is_up:
        return f"       {replica.node_id} down"
    node = replica.node
    log = f"log [{node.log.start_offset}, {node.log.end_offset})"
    voters = [key.id for key in node.voters.latest.keys]
    return (
        f"       {replica.node_id} {node.role.NAME} in epoch {node.epoch}, "
        f"{log}, high watermark {node.high_watermark}, voters {voters}"
    )
