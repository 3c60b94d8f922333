from headrace.log.file_budget import FileBudget, LazyFile
from headrace.testing.disk import SimulatedDisk


def make(limit: int, count: int) -> tuple[FileBudget, list[LazyFile]]:
    disk = SimulatedDisk()
    disk.make_directory("/d")
    for number in range(count):
        disk.replace_file(f"/d/{number}", b"%d" % number)
    budget = FileBudget(disk, limit)
    return budget, [LazyFile(budget, f"/d/{number}") for number in range(count)]


def test_no_more_than_the_limit_are_open() -> None:
    budget, files = make(3, 10)
    for _ in range(3):
        for number, lazy in enumerate(files):
            assert lazy.get().read(0, 9) == b"%d" % number
            assert budget.open_count <= 3


def test_a_file_in_use_is_spared() -> None:
    budget, files = make(3, 10)
    files[0].get()
    for lazy in files[1:]:
        lazy.get()
        kept = files[0].file is not None
        files[0].get()
    assert kept, "used between any two others"
    assert budget.open_count <= 3


def test_a_file_let_go_still_works_for_who_holds_it() -> None:
    _, files = make(1, 2)
    held = files[0].get()
    files[1].get()
    assert files[0].file is None
    assert held.read(0, 1) == b"0"
    assert not held.closed
