"""From HDFS's keys to what they mean: lists of hosts in files, and who is a superuser."""

from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.node.hdfs_settings import Superusers, load_config, parse_address
from headrace.node.namespace_settings import read_hosts


def test_hosts_are_names_a_line_or_a_space_apart(tmp_path: Path) -> None:
    included, excluded = tmp_path / "include", tmp_path / "exclude"
    included.write_text("one two  # both of them\n\n10.0.0.3\n# four\n")
    excluded.write_text("")
    keys = {"dfs.hosts": str(included), "dfs.hosts.exclude": str(excluded)}
    hosts = read_hosts(load_config(None, keys).values)
    assert hosts.included == {"one", "two", "10.0.0.3"}
    assert hosts.excluded == frozenset()
    excluded.write_text("two")
    assert read_hosts(load_config(None, keys).values).excluded == {"two"}
    excluded.unlink()
    with pytest.raises(UsageError, match="exclude: No such file"):
        read_hosts(load_config(None, keys).values)
    assert read_hosts(load_config(None, {}).values).included == frozenset()


@pytest.mark.parametrize(
    ("keys", "superusers"),
    [
        ({}, "runs member"),
        ({"dfs.permissions.superusergroup": "staff"}, "runs anna"),
        ({"dfs.cluster.administrators": "anna, eve"}, "runs member anna eve"),
        ({"dfs.permissions.enabled": "false"}, "runs member anna eve"),
    ],
)
def test_superusers_are_who_runs_it_and_the_namespace_s(
    keys: dict[str, str], superusers: str
) -> None:
    groups = {"member": ("users", "supergroup"), "anna": ("staff",)}
    may = Superusers(load_config(None, keys).values, "runs", lambda user: groups.get(user, ()))
    assert [user for user in ("runs", "member", "anna", "eve") if may(user)] == superusers.split()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8020", ("127.0.0.1", 8020)),
        ("[::1]:0", ("::1", 0)),
        ("namenode:65535", ("namenode", 65535)),
        ("namenode", None),
        (":8020", None),
        ("[]:8020", None),
        ("namenode:65536", None),
        ("namenode:-1", None),
        ("namenode:", None),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int] | None) -> None:
    if address is not None:
        assert parse_address("key", text) == address
        return
    with pytest.raises(UsageError, match=r"key=.* is not HOST:PORT"):
        parse_address("key", text)
