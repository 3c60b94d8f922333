from headrace.log.file_budget import INDEXES_MAX, FileBudget, LazyFile
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


def test_only_the_indexes_loaded_last_are_kept() -> None:
    budget, _ = make(1, 1)

    class Owner:
        has_indexes = True

        def let_go_indexes(self) -> None:
            self.has_indexes = False

    owners = [Owner() for _ in range(INDEXES_MAX + 10)]
    for owner in owners:
        budget.on_indexes_loaded(owner)
    assert [owner.has_indexes for owner in owners] == [False] * 10 + [True] * INDEXES_MAX
    for _ in range(2 * INDEXES_MAX):
        budget.on_indexes_loaded(owners[-1])
    assert owners[-1].has_indexes, "who loads again and again is one owner, and the youngest"
    assert owners[10].has_indexes
