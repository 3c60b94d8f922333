"""The thread that keeps a core awake: of the lowest priority, where its caller is, for a while."""

import os
import subprocess
import sys

import pytest

from headrace.base.compiled import OPT_OUT, is_compiled
from headrace.runtime import wakefulness

DEADLINE_S = 30
_STARTED = """
import os, time
before = set(os.listdir("/proc/self/task"))
from headrace.runtime.wakefulness import core_keeper
keeper = core_keeper()
keeper.keep(0)
(tid,) = map(int, set(os.listdir("/proc/self/task")) - before)
end_s = time.monotonic() + 30
while os.sched_getscheduler(tid) != os.SCHED_IDLE and time.monotonic() < end_s:
    time.sleep(0.001)
assert os.sched_getscheduler(tid) == os.SCHED_IDLE
while not keeper.spent_s() and time.monotonic() < end_s:  # it is there, but may wait for a core
    time.sleep(0.001)
assert keeper.spent_s()
"""


def run(program: str, **environment: str) -> str:
    """In a process of its own, for a thread of this one would stay.

    And of a session of its own: tests beside it are not to leave the thread without a core.
    """
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_started(program: str) -> str:
    """With `keeper` and the number `tid` of its thread, compiled as the tree is."""
    if not is_compiled():
        assert wakefulness.core_keeper() is None
        pytest.skip("without compiled modules there is none, as was just seen")
    return run(_STARTED + program)


def test_interpreted_there_is_none() -> None:
    program = "from headrace.runtime.wakefulness import core_keeper; print(core_keeper())"
    assert run(program, **{OPT_OUT: "1"}) == "None\n"


def test_it_runs_as_long_as_it_was_told_and_no_longer() -> None:
    run_started(
        """
assert keeper.spent_s() < 0.005
end_s = time.monotonic() + 30
while keeper.spent_s() < 0.05 and time.monotonic() < end_s:
    keeper.keep(20_000_000)
    time.sleep(0.02)
assert keeper.spent_s() >= 0.05
time.sleep(0.05)
before_s = keeper.spent_s()
time.sleep(0.3)
assert keeper.spent_s() - before_s < 0.005, "it sleeps"
before_s = keeper.spent_s()
keeper.keep(10_000_000)
time.sleep(0.3)
assert keeper.spent_s() - before_s < 0.015, "no longer than asked"
"""
    )


def test_it_goes_where_its_caller_is() -> None:
    run_started(
        """
cores = sorted(os.sched_getaffinity(0))
for core in (*cores, *cores):
    os.sched_setaffinity(0, {core})
    keeper.keep(1000)
    assert os.sched_getaffinity(tid) == {core}
os.sched_setaffinity(0, cores)
assert os.sched_getaffinity(0) == set(cores), "the caller is tied to nothing"
"""
    )


def test_signals_are_not_for_it() -> None:
    run_started(
        """
import signal
status = open(f"/proc/self/task/{tid}/status").read()
(line,) = (line for line in status.splitlines() if line.startswith("SigBlk"))
blocked = int(line.split()[1], 16)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1):
    assert blocked >> (number - 1) & 1, number
assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()), "the caller takes them"
"""
    )


def test_a_fork_has_none_and_does_not_miss_it() -> None:
    run_started(
        """
pid = os.fork()
if not pid:
    keeper.keep(1_000_000)
    os._exit(0 if keeper.spent_s() == 0 else 1)
assert os.waitpid(pid, 0)[1] == 0
"""
    )


def test_the_process_ends_while_it_runs() -> None:
    run_started("keeper.keep(3_600_000_000_000)")


@pytest.mark.parametrize("value", ["'a'", "None", "1 << 70"])
def test_what_is_no_time_is_refused(value: str) -> None:
    run_started(
        f"""
try:
    keeper.keep({value})
except (TypeError, OverflowError):
    pass
else:
    raise AssertionError
"""
    )
