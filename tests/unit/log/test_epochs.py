from headrace.log.epochs import LeaderEpochs


def test_epochs_rise_and_equal_ones_change_nothing() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest == -1
    assert epochs.assign(0, 0)
    assert not epochs.assign(0, 50)
    assert epochs.assign(3, 100)
    assert not epochs.assign(2, 120)
    assert not epochs.assign(-1, 130)
    assert epochs.entries == [(0, 0), (3, 100)]


def test_an_epoch_without_records_gives_way_to_the_next() -> None:
    epochs = LeaderEpochs([(0, 0), (1, 100)])
    epochs.assign(2, 100)
    assert epochs.entries == [(0, 0), (2, 100)]


def test_the_epoch_of_an_offset() -> None:
    epochs = LeaderEpochs([(1, 10), (4, 100)])
    assert [epochs.epoch_at(offset) for offset in (5, 10, 99, 100, 500)] == [-1, 1, 1, 4, 4]


def test_the_end_of_an_epoch_names_the_epoch_it_is_for() -> None:
    """KIP-279: asked for one it does not know, the leader answers with the one below."""
    epochs = LeaderEpochs([(1, 10), (4, 100), (6, 150)])
    assert epochs.end_offset_for(6, 200) == (6, 200)
    assert epochs.end_offset_for(5, 200) == (4, 150)
    assert epochs.end_offset_for(4, 200) == (4, 150)
    assert epochs.end_offset_for(3, 200) == (1, 100)
    assert epochs.end_offset_for(0, 200) == (0, 10)
    assert epochs.end_offset_for(7, 200) == (-1, -1)
    assert epochs.end_offset_for(-1, 200) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, 200) == (-1, -1)


def test_truncation_from_both_ends() -> None:
    epochs = LeaderEpochs([(1, 10), (4, 100), (6, 150)])
    assert epochs.truncate_from_end(150)
    assert epochs.entries == [(1, 10), (4, 100)]
    assert not epochs.truncate_from_end(150)
    assert epochs.truncate_from_start(120)
    assert epochs.entries == [(4, 120)]
    assert not epochs.truncate_from_start(120)
    assert not epochs.truncate_from_start(50)
