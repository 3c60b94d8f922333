"""A bound that nobody keeps is no bound."""

import re
from pathlib import Path

import headrace
from headrace.base import limits

ROOT = Path(headrace.__file__).parent


def test_every_bound_is_kept_somewhere() -> None:
    own = Path(limits.__file__)
    sources = "\n".join(path.read_text() for path in ROOT.rglob("*.py") if path != own)
    names = [name for name in vars(limits) if name.isupper() and name not in ("KIB", "MIB")]
    assert names
    assert [name for name in names if not re.search(rf"\b{name}\b", sources)] == []
