"""Who ended blocks with a sync is expected to do so again."""

from headrace.datanode.sync_habits import SyncHabits


def test_nobody_is_expected_to_sync_before_anybody_has() -> None:
    assert not SyncHabits().will_sync("a")


def test_every_writer_has_its_own_habit_and_the_last_block_tells() -> None:
    habits = SyncHabits()
    habits.on_block_ended("syncs", True)
    habits.on_block_ended("does not", False)
    assert habits.will_sync("syncs")
    assert not habits.will_sync("does not")
    habits.on_block_ended("syncs", False)
    assert not habits.will_sync("syncs")


def test_a_new_writer_is_taken_for_the_one_before() -> None:
    habits = SyncHabits()
    habits.on_block_ended("a", True)
    assert habits.will_sync("new")
    habits.on_block_ended("b", False)
    assert not habits.will_sync("new")


def test_who_was_not_heard_of_for_long_is_forgotten() -> None:
    habits = SyncHabits()
    habits.on_block_ended("old", True)
    habits.on_block_ended("steady", True)
    for number in range(1022):
        habits.on_block_ended(f"other-{number}", False)
    assert habits.will_sync("old")
    habits.on_block_ended("steady", True)
    habits.on_block_ended("one more", False)
    assert not habits.will_sync("old")
    assert habits.will_sync("steady")
