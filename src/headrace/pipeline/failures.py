"""Failures of a running pipeline: which of them no restart helps, and each in one line.

Owns: that judgement. Must not know: what is done about it. Spark hands on only the text of what its
Python processes raised, so both look at texts too.
"""

import re

from headrace.base.errors import HeadraceError, UsageError
from headrace.client.refusals import no_room
from headrace.pipeline.errors import CorruptRecords, DataLost
from headrace.pipeline.fence import Fenced
from headrace.pipeline.preflight import CannotStart
from headrace.pipeline.publication import PublicationConflict
from headrace.pipeline.topics import MissingTopic

FINAL = (
    Fenced,
    DataLost,
    CorruptRecords,
    PublicationConflict,
    MissingTopic,
    UsageError,
    CannotStart,
)
"""Failures that come again: no restart helps."""

_RAISED = re.compile(r"^headrace\.(?:\w+\.)*\w+: (.+)$", re.MULTILINE)
"""The last line of a Python traceback, within what Java says."""


def is_final(failure: BaseException) -> bool:
    """Also where Spark only hands on the text of what its Python processes raised."""
    text = str(failure)
    names = (f"{each.__module__}.{each.__name__}: " for each in FINAL)
    return isinstance(failure, FINAL) or any(name in text for name in names)


def sentence(error: BaseException) -> str:
    """A failure in one line: what a task of Python said, if that is the cause, else the first."""
    if isinstance(error, HeadraceError):
        return str(error)
    text = str(error)
    said = _RAISED.findall(text)
    if said:
        return str(said[-1])
    if (advice := no_room(text)) is not None:
        # Of Spark's own files in the checkpoint, which Java writes.
        return f"the file system: {advice}"
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__
