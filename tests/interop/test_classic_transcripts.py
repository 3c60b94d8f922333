"""The golden transcripts of classic groups, spoken with running brokers: ours, and Kafka itself.

What a simulated coordinator is recorded to answer, a broker of either kind must answer over the
wire. Up to the first command that needs a clock of its own; of `show` the state alone; the order in
which members are answered and listed is each broker's own.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.confluent import create_topic
from tests.interop.conftest import Target, start_target
from tests.interop.wire_stage import WireStage
from tests.unit.broker.groups.classic.scenario import Scenario

TRANSCRIPTS = Path(__file__).parents[1] / "unit/broker/groups/classic/transcripts"
NEEDS_A_CLOCK = ("> pass", "> restart", "> set")
LEADERS_LEAVE = {"eager"}
"""Who comes after a leader that leaves is each broker's own choice."""
NO_GROUP = {"GROUP_ID_NOT_FOUND": "Dead"}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def target(target_name: str) -> Iterator[Target]:
    with start_target(target_name, **{"group.min.session.timeout.ms": "6000"}) as broker:
        create_topic(broker.bootstrap_servers, "t", 4)
        create_topic(broker.bootstrap_servers, "u", 2)
        yield broker


class Conversation(Scenario):
    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self.line: Any = stage

    def _client(self, name: str, topics: str, protocols: str = "range", *options: str) -> None:
        # Nobody is silent for long here: sessions end when a scenario says so, and none does.
        long = [each for each in options if not each.startswith("session=")]
        super()._client(name, topics, protocols, *long, "session=60000")

    def _show(self) -> None:
        self.told.append(self.line.state())


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with its answers."""
    command, answers = "", list[str]()
    for line in text.splitlines():
        if line.startswith(NEEDS_A_CLOCK):
            break
        if line.startswith("> "):
            if command:
                yield command, answers
            command, answers = line, []
        elif line.startswith("  "):
            answers.append(line.strip())
    if command:
        yield command, answers


def alike(command: str, answers: list[str], *, has_leader: bool) -> list[str]:
    """Without what is each broker's own."""
    if command == "> show":
        first = answers[0].split()[0]
        return [NO_GROUP.get(first, first)]
    if not has_leader:
        answers = [re.sub(r", (leads|follows) [^,]+", "", line) for line in answers]
    return sorted(re.sub(r"(?<=leads )[^,]+", _sorted_words, line) for line in answers)


def _sorted_words(found: re.Match[str]) -> str:
    return " ".join(sorted(found.group().split()))


@pytest.mark.parametrize("name", ["cooperative", "eager", "fencing", "protocols", "static"])
def test_transcript(target: Target, unique: Callable[[str], str], name: str) -> None:
    stage: Any = WireStage(target.address, unique(name))
    conversation = Conversation(stage)
    expected, told = [], []
    has_leader = name not in LEADERS_LEAVE
    for command, answers in blocks((TRANSCRIPTS / f"{name}.txt").read_text()):
        answered = conversation.run(command[2:].split())
        expected.append((command, alike(command, answers, has_leader=has_leader)))
        told.append((command, alike(command, answered, has_leader=has_leader)))
    stage.close()
    assert len(expected) > 10
    assert told == expected
