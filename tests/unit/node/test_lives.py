"""Whether what a process wrote can still be there."""

from random import Random

from headrace.node.lives import Lives
from headrace.testing.disk import SimulatedDisk

A, B = bytes(16), b"b" * 16
PATHS = ["/a", "/b"]


def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    for path in PATHS:
        made.make_directory(path)
    made.sync_directory("/")
    return made


def test_a_process_is_known_until_the_machine_starts_again() -> None:
    used = disk()
    Lives(used, PATHS).note(A)
    used.kill()
    assert Lives(used, PATHS).knows(A)
    assert not Lives(used, PATHS).knows(B)
    used.crash(Random(1))
    assert not Lives(used, PATHS).knows(A)


def test_of_several_lives_each_is_known() -> None:
    """The last one may never have been registered."""
    used = disk()
    Lives(used, PATHS).note(A)
    Lives(used, PATHS).note(B)
    assert Lives(used, PATHS).knows(A)
    assert Lives(used, PATHS).knows(B)


def test_a_directory_that_is_new_knows_nobody() -> None:
    used = disk()
    Lives(used, PATHS).note(A)
    used.remove("/b/.lives")
    assert not Lives(used, PATHS).knows(A)


def test_where_the_machine_has_no_id_nobody_is_known() -> None:
    used = disk()
    used.boot_id = lambda: ""  # type: ignore[method-assign]
    Lives(used, PATHS).note(A)
    assert not Lives(used, PATHS).knows(A)


def test_lives_that_may_have_lost_something_are_forgotten_for_good() -> None:
    """Also by the process after one that ended before it was registered."""
    used = disk()
    Lives(used, PATHS).note(A)
    used.kill()
    lives = Lives(used, PATHS)
    assert not lives.are_forgotten
    lives.forget()
    assert lives.are_forgotten
    assert not lives.knows(A)
    used.kill()
    after = Lives(used, PATHS)
    assert not after.knows(A)
    after.note(B)
    assert after.knows(B)
    assert not after.knows(A)
