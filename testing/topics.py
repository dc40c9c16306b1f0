"""The topics that a test wants its broker to have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def partition_counts(topics: Mapping[str, int] | Iterable[str] | None) -> dict[str, int]:
    """Names with numbers of partitions, of a dict that has them or of a list of names, which get one each.

    Raises:
        TypeError: it is neither; the message says how to write what was meant.
    """
    if isinstance(topics, str | bytes) or not isinstance(topics, Mapping | Iterable | None):
        raise TypeError(f"topics={topics!r}: write topics=['orders'], or topics={{'orders': 3}} for three partitions")
    counts = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics or (), 1)
    for name, count in counts.items():
        if not isinstance(name, str):
            raise TypeError(f"topics: {name!r} is no name: write topics=['orders'], or topics={{'orders': 3}}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise TypeError(f"topics: {name!r} cannot have {count!r} partitions: write a number, as in {{{name!r}: 3}}")
    return counts
