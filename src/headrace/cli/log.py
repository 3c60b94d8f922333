"""`headrace log`: look into the files of a log."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.app import Json, group
from headrace.cli.log_files import rows_of
from headrace.cli.output import progress_beside_output, say

commands = group("log", "Look into the files of a log.")

_HIDDEN_AT = {
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "transactional": False,
    "control": False,
    "crc_valid": True,
    "timestamp_type": "CreateTime",
}
"""Fields that say nothing at these values: people are spared, programs get them all."""


def register(app: typer.Typer) -> None:
    app.add_typer(commands)
    # A group with one command would otherwise swallow the command's name.
    commands.callback()(lambda: None)


@commands.command("dump")
def dump(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of a log.")],
    records: Annotated[
        bool, typer.Option("--records", "-r", help="The records of each batch too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a log's files hold: .log, .index, .timeindex, .txnindex, .snapshot, checkpoints.

    Records of __cluster_metadata and __consumer_offsets are decoded. Damage is reported with its
    position, and the exit code is 1 then. With --json every row is one line.

    \b
    Examples:
      headrace log dump data/events-0/00000000000000000000.log
      headrace log dump --records data/__cluster_metadata-0/00000000000000000000.log
      headrace log dump --json data/events-0/*.index data/recovery-point-offset-checkpoint
    """
    damaged = False
    size_bytes = sum(path.stat().st_size for path in files if path.is_file())
    with progress_beside_output("reading", size_bytes) as shown:
        for path in files:
            if len(files) > 1 and not as_json:
                print(f"{path}:")
            for row in rows_of(path, with_records=records):
                damaged = damaged or "damage" in row
                _print_row(path, row, as_json=as_json)
                shown.advance(row.get("size_bytes", 0))
    if damaged:
        say("there is damage, see above")
        raise typer.Exit(1)


def _print_row(path: Path, row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        json.dump({"file": str(path), **row}, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
        return
    shown = {
        name: value
        for name, value in row.items()
        if name != "records" and not (name in _HIDDEN_AT and _HIDDEN_AT[name] == value)
    }
    print("  ".join(f"{name} {_text(value)}" for name, value in shown.items()))
    for record in row.get("records", ()):
        fields = "  ".join(f"{name} {_text(value)}" for name, value in record.items())
        print(f"    {fields}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
