"""Quotas as people type them, and what the NameNode is asked for."""

from typing import Any

import pytest

from headrace.base.errors import UsageError
from headrace.cli.fs_admin import heard_s_ago, in_our_words, life_of, quota_limit
from headrace.client.namenode import QUOTA_MAX, DatanodeReport, NameNodeClient
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb


@pytest.mark.parametrize("text", ["0", "9223372036854775807", "-5", "ten"])
def test_what_is_no_quota_of_names(text: str) -> None:
    with pytest.raises(UsageError):
        quota_limit(text, least=1)


def test_why_safe_mode_is_on_names_our_command() -> None:
    theirs = 'It was turned on manually. Use "hdfs dfsadmin -safemode leave" to turn safe mode off.'
    assert in_our_words(theirs) == (
        "It was turned on manually. Use `headrace fs safemode leave` to turn safe mode off."
    )
    assert (
        in_our_words('"hdfs dfsadmin -safemode forceExit"') == "`headrace fs safemode force-exit`"
    )


def test_who_was_not_heard_of_is_doubtful() -> None:
    node = DatanodeReport("h:1", "h", "u", "normal", 1, 0, 1, 0, 1_000_000, "/r", "h:2")
    assert life_of(node, live=True, now_ms=1_009_000) == "yes"
    assert life_of(node, live=True, now_ms=1_020_000) == "doubtful"
    assert life_of(node, live=False, now_ms=1_900_000) == "no"
    assert heard_s_ago(node, 1_020_000) == 20
    assert heard_s_ago(node, 990_000) == 0, "where clocks differ"


def test_quotas_have_units() -> None:
    assert quota_limit("10g", least=0) == 10 << 30
    assert quota_limit("0", least=0) == 0, "of bytes: only empty files"
    assert quota_limit("-1", least=1) == -1


def test_the_root_gets_the_largest_quota_of_names_when_it_is_to_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[pb.SetQuotaRequestProto] = []
    client = NameNodeClient("hdfs://127.0.0.1:1", "anna")
    answer: Any = pb.GetQuotaUsageResponseProto()
    answer.usage.quota = QUOTA_MAX
    answer.usage.spaceQuota = 2**64 - 1

    def call(method: str, request: Any) -> Any:
        if method == "setQuota":
            asked.append(request)
        return answer

    monkeypatch.setattr(client._rpc, "call", call)
    for path in ("/", "//", "/a"):
        client.set_quota(path, names=-1)
    assert [one.namespaceQuota for one in asked] == [QUOTA_MAX, QUOTA_MAX, 2**64 - 1]
    found = client.quota("/")
    assert (found["names_quota"], found["space_quota"]) == (-1, -1)
