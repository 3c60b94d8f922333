"""What `/jmx` answers: all beans, those that a pattern names, or one attribute.

    /jmx                    all
    /jmx?qry=NAME           NAME may be a pattern: Hadoop:service=NameNode,name=FSNamesystem*
    /jmx?get=NAME::ATTR     ATTR alone, of each bean that fits

Owns: patterns of names, and the form of the answer. Must not know: any bean.
Spec: Hadoop's JMXJsonServlet, and Java's javax.management.ObjectName for names and patterns. The
servlet sets a status for what it refuses when the answer is out already: it always is 200.
"""

import json
from collections.abc import Sequence
from typing import Any

from headrace.base.web import JSON, WebRequest, WebResponse

Bean = dict[str, Any]
"""Attributes by name; `name` is the bean's own."""
_SEPARATOR = "::"


class _MalformedError(ValueError):
    """Java's MalformedObjectNameException."""


def page(beans: Sequence[Bean], request: WebRequest) -> WebResponse:
    attribute = ""
    wanted = request.query.get("qry", "")
    asked = request.query.get("get")
    if asked is not None:
        # As Java splits: empty parts at the end don't count.
        parts = asked.split(_SEPARATOR)
        while parts and not parts[-1]:
            parts.pop()
        if len(parts) != 2:
            return _json({"result": "ERROR", "message": "query format is not as expected."})
        wanted, attribute = parts
    try:
        pattern = _Pattern(wanted)
    except _MalformedError:
        return _json({})
    found = [bean for bean in beans if pattern.fits(bean["name"])]
    return _one_attribute(found, attribute) if attribute else _json({"beans": found})


def _one_attribute(found: Sequence[Bean], attribute: str) -> WebResponse:
    told: list[Bean] = []
    for bean in found:
        value = bean.get(attribute)
        if value is None:
            message = f"No attribute with name {attribute} was found."
            told.append({"name": bean["name"], "result": "ERROR", "message": message})
            return _json({"beans": told})
        told.append({"name": bean["name"], attribute: value})
    return _json({"beans": told})


class _Pattern:
    """`domain:key=value,…`: * and ? stand for letters, a lone * for further keys; in any order."""

    def __init__(self, text: str) -> None:
        domain, colon, properties = (text or "*:*").partition(":")
        if not colon or not properties:
            raise _MalformedError(text)
        self._domain = domain
        self._values: dict[str, str] = {}
        self._has_more = False
        for item in properties.split(","):
            if item == "*" and not self._has_more:
                self._has_more = True
                continue
            key, equals, value = item.partition("=")
            if not key or not equals or not value or "=" in value or ":" in item:
                raise _MalformedError(text)
            if key in self._values:
                raise _MalformedError(text)
            self._values[key] = value

    def fits(self, name: str) -> bool:
        domain, _, properties = name.partition(":")
        values = dict(item.split("=", 1) for item in properties.split(","))
        if not _fits(self._domain, domain):
            return False
        if len(values) != len(self._values) and not self._has_more:
            return False
        return all(
            key in values and _fits(pattern, values[key]) for key, pattern in self._values.items()
        )


def _fits(pattern: str, text: str) -> bool:
    """* for any letters, ? for one. In bounded time: only the last * is tried again."""
    at = position = 0
    star = resumed = -1
    while position < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, resumed = at, position
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[position]):
            at += 1
            position += 1
        elif star >= 0:
            resumed += 1
            at, position = star + 1, resumed
        else:
            return False
    return not pattern[at:].strip("*")


def _json(value: Any) -> WebResponse:
    return WebResponse(200, json.dumps(value).encode() + b"\n", JSON)
