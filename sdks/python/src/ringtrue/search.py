"""Filters for lists, in RSQL.

>>> str(field("status").eq("COMPLETED") & field("verified").eq(True))
'status=="COMPLETED";verified==true'
"""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import TypeAlias

    Value: TypeAlias = Union[str, bool, int, date, datetime]

__all__ = ["Field", "Filter", "field"]


class Filter:
    """A condition. Combine conditions with `&` and `|`, or with `and_` and `or_`; `str` gives the RSQL."""

    def __init__(self, text: str, joined_by: str = "") -> None:
        self._text = text
        self._joined_by = joined_by

    def and_(self, other: Filter) -> Filter:
        """Both conditions hold."""
        return self._join(other, ";")

    def or_(self, other: Filter) -> Filter:
        """At least one of the conditions holds."""
        return self._join(other, ",")

    __and__ = and_
    __or__ = or_

    def _join(self, other: Filter, symbol: str) -> Filter:
        return Filter(symbol.join(part._within(symbol) for part in (self, other)), symbol)  # noqa: SLF001 (same class)

    def _within(self, symbol: str) -> str:
        return f"({self._text})" if self._joined_by not in ("", symbol) else self._text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        # Values can be personal data.
        return "Filter(…)"

    def __bool__(self) -> bool:
        raise TypeError("combine filters with `&` and `|`, not with `and` and `or`")


class Field:
    """A field to compare. All values are quoted, so that none becomes syntax."""

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
            raise ValueError("invalid field name")
        self._name = name

    def eq(self, value: Value) -> Filter:
        """The field has this value. `*` is an ordinary character."""
        return self._compare("==", _quote(value))

    def ne(self, value: Value) -> Filter:
        """The field has another value, or none."""
        return self._compare("!=", _quote(value))

    def lt(self, value: Value) -> Filter:
        """The field is less, or earlier."""
        return self._compare("=lt=", _quote(value))

    def le(self, value: Value) -> Filter:
        """The field is not greater, or not later."""
        return self._compare("=le=", _quote(value))

    def gt(self, value: Value) -> Filter:
        """The field is greater, or later."""
        return self._compare("=gt=", _quote(value))

    def ge(self, value: Value) -> Filter:
        """The field is not less, or not earlier."""
        return self._compare("=ge=", _quote(value))

    def in_(self, values: Iterable[Value]) -> Filter:
        """The field has one of these values."""
        return self._compare("=in=", _quote_list(values))

    def not_in(self, values: Iterable[Value]) -> Filter:
        """The field has none of these values, or is absent."""
        return self._compare("=out=", _quote_list(values))

    def matches(self, pattern: str) -> Filter:
        """The text matches a pattern in which `*` stands for any characters."""
        return self._compare("==", "*".join(_escape(part) for part in pattern.split("*")), quoted=True)

    def starts_with(self, prefix: str) -> Filter:
        """The text begins with a prefix, in which `*` is an ordinary character."""
        return self._compare("==", _escape(prefix) + "*", quoted=True)

    def exists(self) -> Filter:
        """The text field is present."""
        return Filter(f"{self._name}==*")

    def is_absent(self) -> Filter:
        """The text field is absent."""
        return Filter(f"{self._name}!=*")

    def _compare(self, operator: str, text: str, *, quoted: bool = False) -> Filter:
        return Filter(f'{self._name}{operator}"{text}"' if quoted else f"{self._name}{operator}{text}")


def field(name: str) -> Field:
    """Starts a comparison of a field, such as `field("reference_id").eq("order-7")`."""
    return Field(name)


def _quote_list(values: Iterable[Value]) -> str:
    if isinstance(values, str):
        raise TypeError("expected a list of values")
    texts = [_quote(value) for value in values]
    if not texts:
        raise ValueError("expected at least one value")
    return f"({','.join(texts)})"


def _quote(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a datetime needs a time zone")
        return _rfc3339(value.astimezone(timezone.utc))
    if isinstance(value, date):
        return _rfc3339(datetime(value.year, value.month, value.day, tzinfo=timezone.utc))
    if isinstance(value, (str, int)):
        return f'"{_escape(str(value))}"'
    raise TypeError("expected a text, a number, a truth value or a date")


def _rfc3339(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def _escape(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL character cannot be searched for")
    return re.sub(r'(["\\*])', r"\\\1", text)
