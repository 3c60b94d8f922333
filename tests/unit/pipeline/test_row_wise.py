"""Queries that are not row by row are refused, by the plan that Spark makes of them."""

from dataclasses import dataclass
from typing import Any

import pytest

from headrace.base.errors import UsageError
from headrace.pipeline.row_wise import check_row_wise
from headrace.pipeline.settings import Settings


@dataclass
class Nodes:
    """A Scala Seq."""

    held: list[Any]

    def size(self) -> int:
        return len(self.held)

    def apply(self, index: int) -> Any:
        return self.held[index]


@dataclass
class Node:
    """A LogicalPlan, as far as it is asked; `name` of a View is `View NAME`."""

    name: str
    below: list["Node"]
    subqueries: int = 0

    def nodeName(self) -> str:
        return self.name.split()[0]

    def children(self) -> Nodes:
        return Nodes(self.below)

    def subqueriesAll(self) -> Nodes:
        return Nodes([None] * self.subqueries)

    def isTempView(self) -> bool:
        return True

    def desc(self) -> "Node":
        return self

    def identifier(self) -> "Node":
        return self

    def table(self) -> str:
        return self.name.split()[1]


def plan(*names: str, subqueries: int = 0) -> Node:
    node: list[Node] = []
    for name in reversed(names):
        node = [Node(name, node)]
    node[0].subqueries = subqueries
    return node[0]


EVENTS = ("SubqueryAlias", "View events", "Project", "Filter", "CollectMetrics", "MapInArrow")


def test_projections_and_filters_down_to_the_view_are_taken() -> None:
    check_row_wise(plan("Project", *EVENTS))
    check_row_wise(plan("Project", "Project", "Filter", "SubqueryAlias", "Project", *EVENTS))


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        ("Generate", "many rows"),
        ("GlobalLimit", "LIMIT"),
        ("Sort", "sorts"),
        ("Window", "window"),
        ("Aggregate", "groups"),
        ("Distinct", "DISTINCT"),
        ("Sample", "sample"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_other_nodes_above_the_view_are_refused(node: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_row_wise(plan("Project", node, *EVENTS))


def test_other_tables_are_refused() -> None:
    joined = Node("Project", [Node("Join", [plan(*EVENTS), plan("SubqueryAlias", "Range")])])
    with pytest.raises(UsageError, match="joins"):
        check_row_wise(joined)
    with pytest.raises(UsageError, match="else than events"):
        check_row_wise(plan("Project", "SubqueryAlias", "View others", "LogicalRDD"))
    with pytest.raises(UsageError, match="else than events"):
        check_row_wise(plan("Project", "Range"))
    with pytest.raises(UsageError, match="subquery"):
        check_row_wise(plan("Project", *EVENTS, subqueries=1))


REFUSED = {
    "SELECT explode(array(1, 2)) FROM events": "many rows",
    "SELECT x FROM events LATERAL VIEW explode(array(1, 2)) AS x": "many rows",
    "SELECT 1 FROM events LIMIT 3": "LIMIT",
    "SELECT 1 FROM events ORDER BY offset": "sorts",
    "SELECT row_number() OVER (ORDER BY offset) FROM events": "window",
    "SELECT count(*) FROM events GROUP BY topic, partition, offset, timestamp": "groups",
    "SELECT q.id FROM events, range(3) q": "joins",
    "SELECT 1 FROM (SELECT '' topic, 0 partition, id offset, now() timestamp FROM range(3))": "Ran",
    "SELECT 1 FROM events WHERE offset IN (SELECT id FROM range(3))": "subquery",
    "SELECT (SELECT max(offset) FROM events) FROM events": "subquery",
    "SELECT 1 FROM events TABLESAMPLE (50 PERCENT)": "sample",
    "SELECT 1 FROM (SELECT DISTINCT * FROM events)": "DISTINCT",
    "SELECT nothing FROM events": "Spark refuses",
}
TAKEN = (
    "SELECT 1 FROM events",
    "SELECT offset + 1 AS b, b + 1 AS c FROM events e WHERE offset > 3",
    "SELECT 1 FROM (SELECT * FROM events WHERE offset > 1) e WHERE partition = 0",
)


def broken(_: Any) -> Any:
    raise ZeroDivisionError("a mistake")


def nothing(_: Any) -> Any:
    return None


@pytest.mark.long
def test_spark_makes_such_plans() -> None:
    from headrace.pipeline import transform
    from headrace.pipeline.spark import start_session

    given: dict[str, Any] = {
        "bootstrap_servers": "h:1",
        "target": "hdfs://n:1/x",
        "schema": "id BIGINT",
    }
    spark = start_session("row-wise", "local[1]", {}, is_light=True)
    try:
        for sql in TAKEN:
            transform.check(spark, Settings(**given, sql=sql))
        for sql, sentence in REFUSED.items():
            with pytest.raises(UsageError, match=sentence):
                transform.check(spark, Settings(**given, sql=sql))
        for function, sentence in ((broken, "ZeroDivisionError: a mistake"), (nothing, "no Data")):
            name = f"{__name__}:{function.__name__}"
            with pytest.raises(UsageError, match=sentence):
                transform.check(spark, Settings(**given, transform=name))
    finally:
        spark.stop()
