"""Entries of access control lists, as they are typed and shown."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base.errors import UsageError
from headrace.cli.fs_acl import entries_of, parse_entries


def shown(entry: Any) -> tuple[str, str, str | None, str]:
    return entry.scope, entry.type, entry.name, entry.permissions


def test_entries_are_parsed() -> None:
    found = parse_entries("user:anna:r-x,default:g::rwx,mask::---", with_rights=True)
    assert [shown(entry) for entry in found] == [
        ("access", "user", "anna", "r-x"),
        ("default", "group", None, "rwx"),
        ("access", "mask", None, "---"),
    ]
    (removed,) = parse_entries("user:anna", with_rights=False)
    assert shown(removed)[:3] == ("access", "user", "anna")


@pytest.mark.parametrize("text", ["anna:rwx", "user:anna", "user:anna:xwr", "user:anna:7", "user"])
def test_what_is_no_entry(text: str) -> None:
    with pytest.raises(UsageError, match=r"write it as user:anna:r-x"):
        parse_entries(text, with_rights=True)


def test_rights_are_not_removed_one_by_one() -> None:
    with pytest.raises(UsageError, match="write it as user:anna or"):
        parse_entries("user:anna:r-x", with_rights=False)


def entry(kind: str, name: str | None, rights: str, scope: str = "access") -> Any:
    return SimpleNamespace(type=kind, name=name, permissions=rights, scope=scope)


def test_the_nine_bits_are_shown_as_entries() -> None:
    plain: Any = SimpleNamespace(permission=0o1750, entries=[])
    assert entries_of(plain) == ["user::rwx", "group::r-x", "other::---"]


def test_where_there_is_a_list_the_groups_bits_are_its_mask() -> None:
    status: Any = SimpleNamespace(
        permission=0o770,
        entries=[
            entry("user", "anna", "rwx"),
            entry("group", None, "r--"),
            entry("group", "staff", "r-x"),
            entry("user", None, "rwx", "default"),
        ],
    )
    assert entries_of(status) == [
        "user::rwx",
        "user:anna:rwx",
        "group::r--",
        "group:staff:r-x",
        "mask::rwx",
        "other::---",
        "default:user::rwx",
    ]
