from headrace.testing.clock import SimulatedClock, SimulatedTimers


def test_timers_run_in_order_and_see_their_own_time() -> None:
    clock = SimulatedClock()
    timers = SimulatedTimers(clock)
    seen: list[tuple[str, int]] = []
    for name, delay_ms in (("late", 20), ("soon", 5), ("also soon", 5)):
        timers.call_later(delay_ms, lambda name=name: seen.append((name, clock.monotonic_ms())))
    cancelled = timers.call_later(7, lambda: seen.append(("never", 0)))
    cancelled.cancel()
    cancelled.cancel()
    assert timers.advance(10) == 2
    assert seen == [("soon", 5), ("also soon", 5)]
    assert clock.monotonic_ms() == 10
    assert timers.pending_count == 1
    assert timers.advance(10) == 1
    assert seen[-1] == ("late", 20)


def test_callbacks_may_make_timers() -> None:
    clock = SimulatedClock()
    timers = SimulatedTimers(clock)
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(clock.monotonic_ms())
        timers.call_later(10, tick)

    timers.call_soon(tick)
    assert timers.run_due() == 1
    assert timers.advance(35) == 3
    assert ticks == [0, 10, 20, 30]


def test_the_wall_clock_may_jump_and_monotonic_time_does_not_notice() -> None:
    clock = SimulatedClock(now_ms=1000)
    clock.jump_wall(-500)
    clock.advance(10)
    assert (clock.now_ms(), clock.monotonic_ms()) == (510, 10)
