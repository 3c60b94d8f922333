"""Writes the table of defaults that differ from Kafka's into docs/OPERATIONS.md.

Owns: what stands between the two marks of that page, and nothing else of it. Facts come from
`base.broker_keys` and `base.topic_config`, where such a key tells Kafka's default beside ours.
"""

import argparse
import sys
from pathlib import Path

from headrace.base.broker_keys import BROKER_CONFIG
from headrace.base.config import SAME, ConfigDef, ConfigKey, format_value
from headrace.base.topic_config import TOPIC_CONFIG

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "OPERATIONS.md"
BEGIN = "<!-- defaults: begin (make docs) -->\n"
END = "<!-- defaults: end -->"


def shown(value: object) -> str:
    text = format_value(value)
    return "unset" if text is None else f"`{text}`" if text else "empty"


def different(definition: ConfigDef) -> list[ConfigKey]:
    return [key for key in definition.keys.values() if key.kafka_default is not SAME]


def ours_alone(definition: ConfigDef) -> list[ConfigKey]:
    return [key for key in definition.keys.values() if key.name.startswith("headrace.")]


def without_effect(definition: ConfigDef) -> list[str]:
    return [f"`{key.name}`" for key in definition.keys.values() if not key.honoured]


def block() -> str:
    lines = ["| key | ours | Kafka 4.3 |", "|---|---|---|"]
    for definition in (BROKER_CONFIG, TOPIC_CONFIG):
        for key in different(definition):
            lines.append(f"| `{key.name}` | {shown(key.default)} | {shown(key.kafka_default)} |")
    lines += ["", "Keys of our own:", "", "| key | default | what it does |", "|---|---|---|"]
    for key in ours_alone(BROKER_CONFIG):
        lines.append(f"| `{key.name}` | {shown(key.default)} | {key.doc} |")
    idle = without_effect(BROKER_CONFIG) + without_effect(TOPIC_CONFIG)
    lines += ["", "Accepted so that Kafka's files work, without effect here:", "", ", ".join(idle)]
    return "\n".join(lines) + "\n"


def page(current: str) -> str:
    before, begin, rest = current.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has lost its marks {BEGIN.strip()} and {END}")
    return before + BEGIN + block() + END + after


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    current = PAGE.read_text()
    if parser.parse_args().check:
        if current != page(current):
            print(f"{PAGE.relative_to(ROOT)} is out of date: run `make docs`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page(current))
    print(f"wrote the defaults into {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
