"""Puts a finished run into docs/BENCHMARKS.md, between its two markers.

    python -m bench.report [.build/bench/kafka.json]

Owns: the page's table and the line about the machine. Everything else on the page is written by
people. Figures come from the file of one run and from nowhere else.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bench import goals
from bench.servers import BUILD, ROOT

PAGE = ROOT / "docs" / "BENCHMARKS.md"
BEGIN, END = "<!-- run: begin -->", "<!-- run: end -->"


def cell(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def table(run: dict[str, Any]) -> str:
    lines = [
        "| work | Kafka | Headrace | floor | × Kafka | × floor | goal | |",
        "|---|--:|--:|--:|--:|--:|---|---|",
    ]
    for row in goals.rows(run["runs"]):
        figures = (row.kafka, row.ours, row.floor, row.kafka_ratio, row.floor_ratio)
        cells = [row.goal.label, *map(cell, figures), row.wanted() or "–", row.verdict()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def machine_line(run: dict[str, Any]) -> str:
    machine = run["machine"]
    kind = "A smoke run with small counts" if run["quick"] else "A full run"
    return (
        f"{kind}: best of {run['rounds']} alternating runs after {run['warm']} that warm Kafka up, "
        f"{run['seconds'] / 60:.0f} minutes in all. {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gb']:.0f} GiB, Linux {machine['kernel']}, Python {machine['python']}."
    )


def main() -> int:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "kafka.json"
    run = json.loads(source.read_text())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE.name} has no markers {BEGIN} and {END}")
    body = f"{BEGIN}\n{machine_line(run)}\n\n{table(run)}\n{END}"
    PAGE.write_text(before + body + after)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
