"""Label selectors as they come in a query: `app=x, tier!=y, zone in (a,b), !old`. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Labels = Mapping[str, str]
_KEY = r"[A-Za-z0-9][A-Za-z0-9_./-]*"
_VALUE = r"[A-Za-z0-9_.-]*"
_TERM = re.compile(
    rf"\s*(?:(?P<absent>!)\s*)?(?P<key>{_KEY})\s*"
    rf"(?:(?P<op>==|=|!=)\s*(?P<value>{_VALUE})|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?\s*(?:,|$)"
)


def parse(text: str) -> Callable[[Labels], bool]:
    """Whether labels match. ValueError: it is not a selector."""
    terms, at = [], 0
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None or (found["absent"] and (found["op"] or found["set"])):
            raise ValueError(f"not a label selector: {text!r}")
        terms.append(_term(found))
        at = found.end()
    return lambda labels: all(term(labels) for term in terms)


def _term(found: re.Match[str]) -> Callable[[Labels], bool]:
    key = found["key"]
    if found["absent"]:
        return lambda labels: key not in labels
    if found["op"] is None and found["set"] is None:
        return lambda labels: key in labels
    values = {v.strip() for v in found["values"].split(",")} if found["set"] else {found["value"]}
    if found["op"] == "!=" or found["set"] == "notin":
        return lambda labels: labels.get(key) not in values
    return lambda labels: labels.get(key) in values
