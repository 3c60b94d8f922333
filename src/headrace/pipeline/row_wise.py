"""Whether a query looks at each row by itself.

Owns: what of Spark's analysed plans is row by row. Must not know: its text, offsets.

A row is one record of the log, with an offset of its own: a query that makes two rows of one
(explode, joins), one of two (groups, DISTINCT), or decides about a row by others (LIMIT, windows,
subqueries) would give other files when a batch is cut elsewhere or done again. So a plan consists
of projections and filters alone, down to the view `events`.
"""

from collections.abc import Iterator
from typing import Any

from headrace.base.errors import UsageError

VIEW = "events"
_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "PipeOperator"})
_WORDS = {
    "Aggregate": "groups rows",
    "Distinct": "says DISTINCT",
    "Generate": "makes many rows of one",
    "GlobalLimit": "says LIMIT",
    "Join": "joins",
    "LocalLimit": "says LIMIT",
    "Offset": "says OFFSET",
    "Sample": "takes a sample",
    "Sort": "sorts rows",
    "Union": "joins rows of several queries",
    "Window": "has a window function",
}


def check_row_wise(plan: Any) -> None:
    """Raises UsageError. `plan` is Spark's: the JVM's analysed LogicalPlan."""
    for node in _above_the_view(plan):
        name = str(node.nodeName())
        if name not in _ROW_BY_ROW:
            raise _refused(_WORDS.get(name, f"reads something else than {VIEW} ({name})"))
    if plan.subqueriesAll().size():
        raise _refused("has a subquery that is not in FROM")


def _refused(what: str) -> UsageError:
    return UsageError(f"--sql is row by row, but this query {what}")


def _above_the_view(node: Any) -> Iterator[Any]:
    """What the query adds; below the view is how records are read and parsed, which is ours."""
    is_view = str(node.nodeName()) == "View" and node.isTempView()
    if is_view and str(node.desc().identifier().table()) == VIEW:
        return
    yield node
    children = node.children()
    for index in range(children.size()):
        yield from _above_the_view(children.apply(index))
