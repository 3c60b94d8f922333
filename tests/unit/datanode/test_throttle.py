"""Bytes a second, for moves that a balancer orders."""

from headrace.datanode.throttle import Throttle
from headrace.testing.clock import SimulatedClock, SimulatedTimers


def test_a_second_s_bytes_take_a_second() -> None:
    clock = SimulatedClock()
    timers = SimulatedTimers(clock)
    throttle = Throttle(clock, 1_000_000)
    begun, sent = clock.monotonic_ms(), 0
    while sent < 5_000_000:
        wait_ms = throttle.spend(50_000)
        sent += 50_000
        timers.advance(int(wait_ms))
    assert 4_800 <= clock.monotonic_ms() - begun <= 5_000


def test_the_bound_may_change_or_go() -> None:
    throttle = Throttle(SimulatedClock(), 1_000)
    assert throttle.spend(1_000) == 1_000
    throttle.bytes_per_second = 0
    assert throttle.spend(10**9) == 0
