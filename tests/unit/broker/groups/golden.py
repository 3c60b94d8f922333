"""Golden transcripts: commands, each with the exact answers behind it, in a file to be read.

    # what this is about
    > a command
      what was answered

Owns: the form, and the comparison. A change of behaviour shows as a difference to be read;
`REWRITE=1 pytest …/test_transcripts.py` writes the files anew.
"""

import os
from collections.abc import Callable
from pathlib import Path

Run = Callable[[list[str]], list[str]]
"""One command, in words; the lines it is answered with."""


def performed(text: str, run: Run) -> str:
    """The transcript again, with the answers that are given now."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            lines.append(line)
        elif line.startswith("> "):
            lines.append(line)
            lines += [f"  {told}" for told in run(line[2:].split())]
    return "\n".join(lines) + "\n"


def check(path: Path, run: Run) -> None:
    """What is told now is what the file says, to the letter."""
    expected = path.read_text()
    transcript = performed(expected, run)
    if os.environ.get("REWRITE"):
        path.write_text(transcript)
    else:
        assert transcript == expected
