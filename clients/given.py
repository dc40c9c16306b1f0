"""Checks of arguments: a wrong one raises `OptionError` before it does harm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar

from ottla.clients.errors import OptionError
from ottla.clients.structs import OffsetAndMetadata
from ottla.protocol.records import TopicPartition

T = TypeVar("T")
Headers = Sequence[tuple[str, bytes | None]]
MAX_NAME_BYTES = 0x7FFF


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_name(value: Any, most: int = MAX_NAME_BYTES) -> bool:
    """Tell whether a value is a text that can be sent."""
    try:
        return isinstance(value, str) and len(value.encode()) <= most
    except UnicodeEncodeError:
        return False


def name(key: str, given: str) -> str:
    """One name."""
    if not is_name(given):
        raise OptionError(f"{key}={given!r}: allowed is a name: one text, of at most {MAX_NAME_BYTES:,} bytes")
    return given


def several(key: str, given: Iterable[T], kind: type[T] | tuple[type[T], ...], words: str = "names") -> list[T]:
    """A list of things of one kind. A single text is refused, as it would be taken for its letters."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        such_as = f", such as [{given!r}]" if isinstance(given, kind) else ""
        raise OptionError(f"{key}={given!r}: allowed is a list of {words}{such_as}")
    listed = list(given)
    for one in listed:
        if not isinstance(one, kind) or (isinstance(one, str) and not is_name(one)):
            raise OptionError(f"{key}={listed!r}: {one!r} cannot be one; allowed is a list of {words}")
    return listed


def mapping(key: str, given: Mapping[Any, T], words: str) -> Mapping[Any, T]:
    """A dict. ``words`` name its keys and values."""
    if not isinstance(given, Mapping):
        raise OptionError(f"{key}={given!r}: allowed is a dict, {words}")
    return given


def partition(given: Any) -> TopicPartition:
    """A partition, as itself or as a pair."""
    if isinstance(given, (tuple, list)) and len(given) == 2 and is_name(given[0]) and is_int(given[1]):
        return TopicPartition(*given)
    raise OptionError(f"partition={given!r}: allowed is a TopicPartition, or a pair such as ('orders', 0)")


def partitions(key: str, given: Iterable[Any]) -> list[TopicPartition]:
    """A list of partitions."""
    if isinstance(given, (str, bytes, TopicPartition)) or not isinstance(given, Iterable):
        raise OptionError(f"{key}={given!r}: allowed is a list of partitions, such as [TopicPartition('orders', 0)]")
    return [partition(one) for one in given]


def by_partition(key: str, given: Mapping[Any, T]) -> dict[TopicPartition, T]:
    """A dict by partition."""
    return {partition(tp): value for tp, value in mapping(key, given, "by partition").items()}


def offsets(given: Mapping[Any, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit, each alone or with metadata."""
    return {tp: _offset(tp, value) for tp, value in by_partition("offsets", given).items()}


def headers(given: Any) -> Headers:
    """The headers of a record."""
    if not given:
        return ()
    if not isinstance(given, Sequence) or not all(_is_header(one) for one in given):
        raise OptionError(
            f"headers={given!r}: allowed is a list of pairs of a name and bytes or None, such as [('name', b'value')]"
        )
    return given


def _is_header(one: Any) -> bool:
    return (
        isinstance(one, (tuple, list))
        and len(one) == 2
        and is_name(one[0], 1 << 30)
        and isinstance(one[1], (bytes, bytearray, memoryview, NoneType))
    )


def _offset(tp: TopicPartition, value: Any) -> OffsetAndMetadata:
    made = OffsetAndMetadata(*value) if isinstance(value, tuple) and 1 <= len(value) <= 3 else OffsetAndMetadata(value)
    if not is_int(made.offset) or made.offset < 0 or not isinstance(made.metadata, str):
        raise OptionError(f"offset={value!r} of {tp[0]}-{tp[1]}: allowed is an offset from 0, with a text if wanted")
    return made
