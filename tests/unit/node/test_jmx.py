"""What `/jmx` answers to a pattern of names, to a name with an attribute, and to what is neither.

The answers are those of Apache's servlet; the patterns are Java's.
"""

import json
import time
from typing import Any

import pytest

from headrace.base.web import WebRequest
from headrace.node import jmx

STATE = {"name": "Hadoop:service=NameNode,name=FSNamesystemState", "Files": 3, "None": None}
SYSTEM = {"name": "Hadoop:service=NameNode,name=FSNamesystem", "Files": 3, "Blocks": 0}
INFO = {"name": "Hadoop:service=DataNode,name=DataNodeInfo", "Port": "1"}
BEANS = [STATE, SYSTEM, INFO]


def ask(**query: str) -> tuple[int, Any]:
    request = WebRequest("GET", "/jmx", query, "", "127.0.0.1", "h")
    answer = jmx.page(BEANS, request)
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", BEANS),
        ("*:*", BEANS),
        (":*", []),
        ("Hadoop:*", BEANS),
        ("java.lang:*", []),
        ("Had??p:*", BEANS),
        ("*oo*:*", BEANS),
        (STATE["name"], [STATE]),
        ("Hadoop:name=FSNamesystemState,service=NameNode", [STATE]),
        ("Hadoop:service=NameNode,name=FSNamesystem*", [STATE, SYSTEM]),
        ("Hadoop:service=NameNode,name=FSNamesystem?????", [STATE]),
        ("Hadoop:service=NameNode,name=*", [STATE, SYSTEM]),
        ("Hadoop:service=*,name=*Info", [INFO]),
        ("Hadoop:service=NameNode", []),
        ("Hadoop:service=NameNode,*", [STATE, SYSTEM]),
        ("Hadoop:*,service=DataNode", [INFO]),
        ("Hadoop:service=NameNode,name=FSNamesystem,more=x", []),
        ("hadoop:service=NameNode,name=FSNamesystem", []),
    ],
)
def test_beans_by_a_pattern(wanted: str, expected: list[dict[str, Any]]) -> None:
    assert ask(qry=wanted) == (200, {"beans": expected})


@pytest.mark.parametrize(
    "wanted",
    [
        *("Hadoop", "Hadoop:", "Hadoop:service", "Hadoop:=x", "Hadoop:service="),
        *("Hadoop:a=b,a=c", "Hadoop:a=b,,c=d", "Hadoop:a=b:c", "Hadoop:*,*", "Hadoop:a=b=c"),
    ],
)
def test_what_is_no_name_finds_nothing(wanted: str) -> None:
    assert ask(qry=wanted) == (200, {})
    assert ask(get=f"{wanted}::Files") == (200, {})


def test_one_attribute() -> None:
    name = SYSTEM["name"]
    assert ask(get=f"{name}::Blocks") == (200, {"beans": [{"name": name, "Blocks": 0}]})
    assert ask(get=f"{name}::Blocks", qry="ignored") == ask(get=f"{name}::Blocks")
    assert ask(get="Hadoop:service=NameNode,*::Files") == (
        200,
        {"beans": [{"name": bean["name"], "Files": 3} for bean in (STATE, SYSTEM)]},
    )
    assert ask(get="Hadoop:service=Nobody::Files") == (200, {"beans": []})


@pytest.mark.parametrize(
    ("bean", "attribute"), [(SYSTEM, "Nothing"), (STATE, "None"), (SYSTEM, "blocks")]
)
def test_an_attribute_that_is_not_there(bean: dict[str, Any], attribute: str) -> None:
    error = {"result": "ERROR", "message": f"No attribute with name {attribute} was found."}
    expected = {"beans": [{"name": bean["name"], **error}]}
    assert ask(get=f"{bean['name']}::{attribute}") == (200, expected)


@pytest.mark.parametrize("asked", ["", "Files", "::", "a::", "a:b=c::d::e"])
def test_an_attribute_is_asked_for_with_its_bean(asked: str) -> None:
    expected = {"result": "ERROR", "message": "query format is not as expected."}
    assert ask(get=asked) == (200, expected)


def test_no_pattern_takes_long() -> None:
    began_s = time.monotonic()
    ask(qry="Hadoop:service=NameNode,name=" + "*?" * 30_000 + "x")
    ask(qry="*a" * 30_000 + ":*")
    assert time.monotonic() - began_s < 1
