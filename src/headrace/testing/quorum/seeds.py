"""One seed, one life of a quorum: bad times, then good ones in which it must recover.

Owns: what a seed means, the two phases, the report, and the shrinking of a failing seed. Must not
know: a rule (a `Violation` names it).

Phase one: `EVENTS_MIN` events with faults; the checkers look at every one. Phase two: no fault any
more; within `RECOVERY_MS_MAX` there is a leader, what is proposed now is committed, and all
replicas agree. The measure of the way to a leader is the election time-out.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.testing.quorum.faults import Faults
from headrace.testing.quorum.network import Weather
from headrace.testing.quorum.simulation import SETTINGS, Simulation
from headrace.testing.quorum.violation import Violation

EVENTS_MIN = 2_000
LEADER_TIMEOUTS_MAX = 10
"""A leader within so many election time-outs after the last fault."""
RECOVERY_MS_MAX = 60_000
QUEUED_MS_MAX = 4_100
"""The slowest message of the bad times is behind us."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a life was like."""

    seed: int
    event_count: int
    simulated_ms: int
    election_count: int
    committed_count: int
    acked_count: int
    voter_change_count: int
    truncation_count: int
    install_count: int
    leader_after_ms: int
    """From the end of the bad times to a leader."""
    faults: dict[str, int] = field(default_factory=dict)


class FailedSeed(AssertionError):
    """A violation with what is needed to see it again."""

    def __init__(self, seed: int, violation: Violation, event_count: int, events: int) -> None:
        super().__init__(
            f"seed {seed} breaks {violation} after {event_count} events; "
            f"again: headrace.testing.quorum.seeds.run({seed}, event_count={events})"
        )
        self.seed = seed
        self.rule = violation.rule
        self.event_count = event_count


def build(seed: int, *, on_wire: bool = False) -> tuple[Simulation, Faults, int]:
    """The world of a seed, its faults, and the pause between proposals."""
    dice = random.Random(seed * 7_919 + 13)
    voter_count = dice.choice((1, 2, 3, 3, 3, 3, 4, 5, 5))
    observer_count = dice.choice((0, 0, 1, 2))
    weather = Weather(
        loss=dice.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
        doubling=dice.choice((0.0, 0.02, 0.2)),
        straggling=dice.choice((0.0, 0.01, 0.05)),
        delay_ms_max=dice.choice((2, 10, 40)),
        refusing=dice.choice((0.0, 0.7, 1.0)),
    )
    world = Simulation(seed, voter_count, observer_count, weather, on_wire=on_wire)
    faults = Faults(world, dice.choice((100, 250, 500, 1_000)))
    return world, faults, dice.choice((20, 50, 100, 200))


def run(
    seed: int,
    event_count: int = EVENTS_MIN,
    build_world: Callable[[int], tuple[Simulation, Faults, int]] = build,
) -> Outcome:
    """A whole life; raises `FailedSeed`."""
    world, faults, gap_ms = build_world(seed)
    try:
        return _live(world, faults, gap_ms, event_count)
    except Violation as violation:
        raise FailedSeed(seed, violation, world.event_count, event_count) from violation


def _live(world: Simulation, faults: Faults, gap_ms: int, event_count: int) -> Outcome:
    dice = random.Random(world.dice.getrandbits(32))

    def propose() -> None:
        leaders = world.leaders()
        if leaders:
            world.propose(dice.choice(leaders))
        world.schedule(1 + dice.randrange(2 * gap_ms), propose)

    world.start_all()
    faults.start()
    world.schedule(gap_ms, propose)
    while world.event_count < event_count:
        world.run_event()
    faults.end()
    leader_after_ms = _recover(world)
    log, elections = world.checkers.log, world.checkers.elections
    return Outcome(
        world.seed,
        world.event_count,
        world.now_ms,
        elections.election_count,
        log.committed_end,
        log.acked_count,
        log.voter_change_count,
        log.truncation_count,
        log.install_count,
        leader_after_ms,
        faults.counts,
    )


def _recover(world: Simulation) -> int:
    """The good times: says after how long there was a leader to stay."""
    has_stragglers = world.network.weather.straggling > 0
    world.network.weather = Weather(delay_ms_max=5)
    began_ms = world.now_ms
    limit_ms = LEADER_TIMEOUTS_MAX * SETTINGS.election_timeout_ms
    if not world.run_until(lambda: world.leader() is not None, limit_ms):
        raise Violation("L", f"no leader {limit_ms} ms after the last fault: {_told(world)}")
    leader_after_ms = world.now_ms - began_ms
    if has_stragglers:
        # Messages of the bad times may still unseat it once.
        world.run_for(QUEUED_MS_MAX)
    goal = world.checkers.log.committed_end + 1

    def is_whole() -> bool:
        committed_end = world.checkers.log.committed_end
        return committed_end >= goal and all(
            replica.machine.applied_offset == committed_end for replica in world.replicas.values()
        )

    if not world.run_until(is_whole, RECOVERY_MS_MAX):
        raise Violation(
            "L", f"no agreement {RECOVERY_MS_MAX} ms after the last fault: {_told(world)}"
        )
    return leader_after_ms


def _told(world: Simulation) -> str:
    return ", ".join(
        f"{replica!r} end={replica.disk.log.end_offset} applied={replica.machine.applied_offset}"
        f" voters={[key.id for key in replica.node.voters.latest.keys]}"
        for replica in world.replicas.values()
    )


def shrink(seed: int, event_count: int = EVENTS_MIN) -> FailedSeed | None:
    """The same failure with as few events as bisection of the bad times finds."""
    best = _failure(seed, event_count)
    if best is None:
        return None
    low, high = 0, min(event_count, best.event_count)
    while low < high:
        middle = (low + high) // 2
        found = _failure(seed, middle)
        if found is not None and found.rule == best.rule:
            high = middle
            # A short bad time may show late, in the good times, what a longer one shows at once.
            best = min(best, found, key=lambda failed: failed.event_count)
        else:
            low = middle + 1
    return best


def _failure(seed: int, event_count: int) -> FailedSeed | None:
    try:
        run(seed, event_count)
    except FailedSeed as failed:
        return failed
    return None
