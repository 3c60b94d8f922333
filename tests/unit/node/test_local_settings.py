"""`--set` of a local cluster: to whom each key goes."""

import pytest

from headrace.base.config import ConfigError
from headrace.node.local_settings import split_settings


def test_each_key_goes_to_every_role_that_knows_it() -> None:
    given = {
        "num.partitions": "3",
        "dfs.blocksize": "1048576",
        "headrace.log.level": "debug",
    }
    split = split_settings(given, with_files=True)
    assert split.log == {"num.partitions": "3", "headrace.log.level": "debug"}
    assert split.files == {"dfs.blocksize": "1048576", "headrace.log.level": "debug"}
    alone = split_settings({"headrace.log.level": "debug"}, with_files=False)
    assert (alone.log, alone.files) == ({"headrace.log.level": "debug"}, {})


@pytest.mark.parametrize(
    ("key", "value", "with_files", "reason"),
    [
        ("no.such.key.at.all", "1", True, "no node knows the key no.such.key.at.all"),
        ("dfs.blocksizes", "1", True, "did you mean dfs.blocksize?"),
        ("num.partition", "1", False, "did you mean num.partitions?"),
        ("dfs.blocksize", "1", False, "which --datanodes 0 leaves out"),
        ("dfs.replication", "many", True, "dfs.replication"),
        ("num.partitions", "many", True, "num.partitions"),
    ],
)
def test_refusals(key: str, value: str, with_files: bool, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        split_settings({key: value}, with_files=with_files)
    assert reason in str(refused.value)
