"""Hadoop's own client that acts for somebody else: who may is served, who may not hears it."""

import getpass

import pytest
from tests.interop.hdfs.conftest import FileSystem, Shell

from headrace.testing.filesystem import LocalFileSystem

SUPERUSER = getpass.getuser()


@pytest.mark.parametrize(("real_user", "user"), [("eve", SUPERUSER), ("eve", "ann")])
def test_nobody_acts_for_another(hdfs: Shell, folder: str, real_user: str, user: str) -> None:
    refused = hdfs("dfs", "-mkdir", f"{folder}/d", real_user=real_user, user=user)
    assert refused.status != 0
    assert f"User: {real_user} is not allowed to impersonate {user}" in refused.stderr
    assert hdfs("dfs", "-test", "-e", f"{folder}/d").status != 0


def test_a_superuser_does(dfs: FileSystem, hdfs: Shell, folder: str) -> None:
    """Of ours: Apache's wants the superuser to be configured as a proxy user, too."""
    hdfs("dfs", "-chmod", "777", folder).check()
    made = hdfs("dfs", "-touchz", f"{folder}/f", real_user=SUPERUSER, user="ann")
    if isinstance(dfs, LocalFileSystem):
        made.check()
        assert hdfs("dfs", "-stat", "%u", f"{folder}/f").check().stdout.strip() == "ann"
    else:
        assert f"User: {SUPERUSER} is not allowed to impersonate ann" in made.stderr
