"""The members of one group, and what is asked of them together."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

from tests.support.members import Member, Place, ProcessMember, Role, Watched, member
from tests.support.waiting import wait_for


class Cast:
    """Members of one group, started with `join`. Whoever is still there at the end is stopped."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.everyone: list[Member | ProcessMember] = []

    def role(self, kind: str, topics: Sequence[str] = (), **fields: Any) -> Role:
        name = fields.pop("name", f"{kind}-{len(self.everyone) + 1}")
        return Role(
            kind=kind,
            bootstrap=self.bootstrap,
            group=self.group,
            topics=tuple(topics) or (self.group,),
            name=name,
            **fields,
        )

    def add(self, kind: str, topics: Sequence[str] = (), *, process: bool = False, **fields: Any) -> Any:
        """A member that has not joined yet."""
        role = self.role(kind, topics, **fields)
        one = ProcessMember(role) if process else member(role)
        self.everyone.append(one)
        return one

    def join(self, kind: str, topics: Sequence[str] = (), **fields: Any) -> Any:
        """A member that joins now."""
        return self.add(kind, topics, **fields).start()

    def seen(self, values: Iterable[str] | None = None) -> Counter[str]:
        """Counts of the values that were seen by anyone: all, or those asked for."""
        counted = Counter(seen.value for one in self.everyone for seen in one.seen)
        return counted if values is None else Counter({value: counted[value] for value in values})

    def wait_shared(self, members: Sequence[Watched], places: Iterable[Place], *, timeout_s: float = 60) -> None:
        """Wait until each place has one owner among the members, and each owns as many as the others, or one more."""
        wanted = sorted(places)

        def shared() -> bool:
            shares = [len(one.owned) for one in members]
            owned = sorted(place for one in members for place in one.owned)
            return owned == wanted and max(shares) - min(shares) <= 1

        names = ", ".join(one.role.name for one in members)
        wait_for(shared, f"{names} to share {len(wanted)} partitions", timeout_s=timeout_s, show=self.describe)

    def wait_seen(self, values: Sequence[str], *, timeout_s: float = 60) -> None:
        """Wait until each value was seen by someone."""

        def missing() -> list[str]:
            return [value for value, times in self.seen(values).items() if not times]

        wait_for(
            lambda: not missing(),
            f"all of {len(values)} values to be seen",
            timeout_s=timeout_s,
            show=lambda: f"missing {missing()}\n{self.describe()}",
        )

    def wait_seen_once(self, values: Sequence[str], *, timeout_s: float = 60) -> None:
        """Wait until each value was seen, and nothing twice."""
        self.wait_seen(values, timeout_s=timeout_s)
        repeated = {value: times for value, times in self.seen(values).items() if times > 1}
        assert not repeated, f"seen more than once: {repeated}\n{self.describe()}"

    def describe(self) -> str:
        return "\n".join(map(str, self.everyone))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for one in self.everyone:
            if isinstance(one, ProcessMember):
                one.kill()
            else:
                one.begin_stop()
        if error is None:  # otherwise there may be no broker to say goodbye to, and the error is what matters
            for one in self.everyone:
                one.stop()


def places(topic: str, count: int) -> list[Place]:
    return [(topic, partition) for partition in range(count)]
