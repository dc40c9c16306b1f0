"""The topics that a test wants its broker to have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ottla.broker.core.topics.catalog import NewTopic

GivenTopics: TypeAlias = Mapping[str, int | Mapping[str, Any]] | Iterable[str] | None
"""Names, which get one partition each; names with partition counts; names with settings and ``partitions``."""
_EXAMPLES = "write topics=['orders'], or topics={'orders': 3} for three partitions"


def wanted_topics(topics: GivenTopics) -> list[NewTopic]:
    """The topics that were given, in any of the forms of `GivenTopics`.

    Raises:
        TypeError: it is none of them; the message says how to write what was meant.
    """
    if isinstance(topics, str | bytes) or not isinstance(topics, Mapping | Iterable | None):
        raise TypeError(f"topics={topics!r}: {_EXAMPLES}")
    rows: dict[Any, Any] = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics or (), 1)
    wanted = []
    for name, given in rows.items():
        if not isinstance(name, str):
            raise TypeError(f"topics: {name!r} is no name: {_EXAMPLES}")
        settings = {"partitions": given} if not isinstance(given, Mapping) else {"partitions": 1, **given}
        count = settings.pop("partitions")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise TypeError(f"topics: {name!r} cannot have {count!r} partitions: write a number, as in {{{name!r}: 3}}")
        configs = [(str(key), setting_text(value)) for key, value in settings.items()]
        wanted.append(NewTopic(name, count, configs=configs))
    return wanted


def setting_text(value: Any) -> str:
    """A value as Kafka's settings are written."""
    return str(value).lower() if isinstance(value, bool) else str(value)
