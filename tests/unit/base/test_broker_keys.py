"""A key that claims to be honoured is read somewhere; one that is read claims it."""

from pathlib import Path

import pytest

import headrace
from headrace.base.broker_keys import BROKER_CONFIG
from headrace.base.topic_config import TOPIC_CONFIG

ROOT = Path(headrace.__file__).parent
DEFINITIONS = {ROOT / "base" / "broker_keys.py", ROOT / "base" / "topic_config.py"}
SYNONYMS = {synonym for key in TOPIC_CONFIG.keys.values() for synonym in key.synonyms}


@pytest.fixture(scope="module")
def sources() -> str:
    return "\n".join(path.read_text() for path in ROOT.rglob("*.py") if path not in DEFINITIONS)


def test_what_is_honoured_is_read(sources: str) -> None:
    unread = [
        name
        for name, key in BROKER_CONFIG.keys.items()
        if key.honoured and name not in SYNONYMS and f'"{name}"' not in sources
    ]
    assert unread == []


def test_what_is_read_is_honoured(sources: str) -> None:
    silent = [
        name
        for name, key in BROKER_CONFIG.keys.items()
        if not key.honoured and f'"{name}"' in sources
    ]
    assert silent == []


def test_what_has_no_effect_says_so() -> None:
    for key in (*BROKER_CONFIG.keys.values(), *TOPIC_CONFIG.keys.values()):
        assert key.honoured == ("effect" not in key.doc), key.name


def test_a_topic_key_and_its_synonyms_are_honoured_together() -> None:
    for key in TOPIC_CONFIG.keys.values():
        for synonym in key.synonyms:
            assert BROKER_CONFIG.keys[synonym].honoured == key.honoured, (key.name, synonym)
