"""Explains a broker's log directory, file by file."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

_PARTITION_FILES = [
    (".log", "the records, in batches as the producer compressed them"),
    (".index", "offset → position in the .log, every few kilobytes"),
    (".timeindex", "time → offset"),
    (".snapshot", "what idempotent producers sent last, so that no retry is stored twice"),
    ("leader-epoch-checkpoint", "which leader wrote from which offset on"),
    ("partition.metadata", "the topic's id"),
]
_DIRECTORY_FILES = [
    ("meta.properties", "the cluster's and the node's id"),
    ("recovery-point-offset-checkpoint", "up to where all is flushed: recovery starts there"),
    ("replication-offset-checkpoint", "the high watermarks"),
    ("log-start-offset-checkpoint", "what was deleted from the front"),
]
_FOLDERS = [
    ("__cluster_metadata-0", "topics, configs, brokers: the cluster's own log"),
    ("__consumer_offsets-*", "where each group stands, as records"),
]


def explain_files(directory: Path, topic: str, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_row(f"{directory}/", "", "")
    for name, meaning in _DIRECTORY_FILES:
        if (directory / name).exists():
            table.add_row(f"  {name}", _size(directory / name), meaning)
    for pattern, meaning in _FOLDERS:
        if any(directory.glob(pattern)):
            table.add_row(f"  {pattern}/", "", meaning)
    folder = sorted(directory.glob(f"{topic}-*"))[0]
    table.add_row(f"  {folder.name}/", "", f"partition {folder.name.rpartition('-')[2]} of {topic}")
    for ending, meaning in _PARTITION_FILES:
        for path in sorted(folder.glob(f"*{ending}")):
            table.add_row(f"    {path.name}", _size(path), meaning)
    console.print(table)


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1024:.0f} KiB" if size >= 10_240 else f"{size} B"
