"""The pytest fixtures that users load in their own tests.

    # conftest.py
    pytest_plugins = ["headrace.testing.fixtures"]

    # test_mine.py
    def test_mine(headrace_broker): ... headrace_broker.bootstrap_servers ...
    def test_files(headrace_cluster): ... hdfs_native.Client(headrace_cluster.fs) ...

Owns: the life of the servers behind the fixtures. Must not know: anything else.
It alone imports pytest, so that `headrace.testing.cluster` can be used without it.
"""

from collections.abc import Iterator

import pytest

from headrace.testing.cluster import LocalBroker
from headrace.testing.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def headrace_broker() -> Iterator[LocalBroker]:
    """One broker for the whole test session: the cheap one. Use topic names of your own."""
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def fresh_headrace_broker() -> Iterator[LocalBroker]:
    """A broker of its own with empty data, for a test that stops, kills or fills it."""
    with LocalBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def headrace_cluster() -> Iterator[LocalCluster]:
    """A broker and a file system for the whole test session, in six processes. Use topics and
    folders of your own."""
    with LocalCluster(brokers=1, datanodes=3) as cluster:
        yield cluster
