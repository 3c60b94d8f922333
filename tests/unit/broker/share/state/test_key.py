"""Where a share-partition's state lives."""

import pytest

from headrace.broker.share.persister import SharePartitionKey
from headrace.broker.share.state.key import coordinator_key, read_coordinator_key

TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize("group_id", ["g", "a:b", "with space", ":"])
def test_there_and_back(group_id: str) -> None:
    key = SharePartitionKey(group_id, TOPIC_ID, 12)
    text = coordinator_key(key)
    assert text == f"{group_id}:AAECAwQFBgcICQoLDA0ODw:12"
    assert read_coordinator_key(text) == key


@pytest.mark.parametrize(
    "text",
    ["", "g", "g:1", ":AAECAwQFBgcICQoLDA0ODw:1", "g:short:1", "g:AAECAwQFBgcICQoLDA0ODw:-1",
     "g:AAECAwQFBgcICQoLDA0ODw:x", "g:AAECAwQFBgcICQoLDA0ODw:"],
)  # fmt: skip
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_coordinator_key(text)
