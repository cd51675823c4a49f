"""Filters: quoting, and what the service finds with them."""

from __future__ import annotations

import uuid
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from ringtrue import Filter, field
from ringtrue.search import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringtrue import Ringtrue

TEXTS = [
    *(
        "order-1",
        "two words",
        "it's",
        '"quoted"',
        "both ' and \"",
        "back\\slash",
        'a\\"b',
        "ends in \\",
        "a,b;c",
        "(x)",
    ),
    *("a=b", "!~<>", "%_", "and", "or", "ü漢🙂", "12", "with*star", "*", "\\*", " padded ", "tab\tnewline\n"),
]


def test_filters_are_joined_with_parentheses_where_needed() -> None:
    a, b, c = (field(name).eq(name) for name in "abc")
    assert str(a & b & c) == 'a=="a";b=="b";c=="c"'
    assert str(a | b | c) == 'a=="a",b=="b",c=="c"'
    assert str((a | b) & c) == '(a=="a",b=="b");c=="c"'
    assert str(a.and_(b).or_(c)) == '(a=="a";b=="b"),c=="c"'


def test_values_are_written_by_their_type() -> None:
    time = datetime(2026, 1, 31, 10, 30, tzinfo=timezone(timedelta(hours=1)))
    assert str(field("verified").eq(True)) == "verified==true"  # noqa: FBT003
    assert str(field("created_at").ge(time)) == "created_at=ge=2026-01-31T09:30:00Z"
    assert str(field("created_at").lt(date(2026, 2, 1))) == "created_at=lt=2026-02-01T00:00:00Z"
    assert str(field("x").in_(["a", 1])) == 'x=in=("a","1")'
    assert str(field("x").starts_with("50%*")) == 'x=="50%\\**"'
    assert str(field("x").matches("a*'b\"")) == 'x=="a*\'b\\""'


@pytest.mark.parametrize(
    "build",
    [
        lambda: field("created_at").gt(datetime(2026, 1, 1)),  # noqa: DTZ001
        lambda: field("x").eq("a\0b"),
        lambda: field("x").in_([]),
        lambda: field("x").in_("abc"),
        lambda: field("x==1;y"),
        lambda: field("x").eq(None),  # type: ignore[arg-type]
        lambda: bool(field("x").eq("a")),
    ],
)
def test_invalid_filters_are_rejected(build: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        build()


def test_values_are_not_shown_by_repr() -> None:
    assert "order-1" not in repr(field("reference_id").eq("order-1"))


@pytest.mark.parametrize("operator", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_service_accepts_every_text(client: Ringtrue, operator: str) -> None:
    for text in TEXTS:
        for name in ("reference_id", "error_code", "network_id"):
            client.reverse_sms.list(getattr(Field(name), operator)(text), size=1).page()


def test_service_finds_exactly_the_quoted_text(client: Ringtrue) -> None:
    run = uuid.uuid4().hex[:8]
    created = {}
    for text in TEXTS:
        reference = f"{run} {text}"
        created[reference] = client.reverse_sms.create(phone_number="+990123456700", reference_id=reference)["check_id"]

    def find(search: Filter) -> list[str]:
        return [item["reference_id"] for item in client.reverse_sms.list(search)]

    reference_id = field("reference_id")
    own = reference_id.starts_with(run)
    assert sorted(find(own)) == sorted(created)
    for reference in created:
        assert find(reference_id.eq(reference)) == [reference]
        assert find(reference_id.in_([reference])) == [reference]
        assert find(reference_id.starts_with(reference) & reference_id.eq(reference)) == [reference]
        assert reference not in find(own & reference_id.ne(reference))
        assert reference not in find(own & reference_id.not_in([reference, "other"]))
    assert sorted(find(reference_id.in_(created))) == sorted(created)
    assert len(find(reference_id.matches(f"{run} *") & reference_id.exists())) == len(TEXTS)
    assert find(own & reference_id.is_absent()) == []
    recent = field("created_at").gt(datetime.now(timezone.utc) - timedelta(hours=1))
    assert len(find(own & recent & (field("status").eq("ACCEPTED") | field("status").eq("PENDING")))) == len(TEXTS)
