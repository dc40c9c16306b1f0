"""Who looks, and what the rules let him see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ottla.broker.core.security.acls import CLUSTER_NAME, AclOperation, Resource
from ottla.broker.core.security.session import Session
from ottla.observe.http.problems import Problem


@dataclass
class Visitor:
    """Somebody who asks by HTTP; the audit tells of him as of a client.

    Attributes:
        client_host: his address with a slash before it, as requests have it.
        is_welcome: whether his token and his cookie are still good; streams ask again.
        user: the name of his token; None where there are no tokens.
    """

    session: Session
    client_host: str = "/"
    client_port: int = 0
    is_welcome: Callable[[], bool] = lambda: True
    user: str | None = None
    client_id: str = ""
    api: str = "HTTP"

    @classmethod
    def of(cls, name: str, address: str) -> Visitor:
        """The visitor with a name."""
        return cls(Session(f"User:{name}", "HTTP"), f"/{address}")

    @classmethod
    def known(cls, name: str, address: str, is_welcome: Callable[[], bool]) -> Visitor:
        """The visitor with a token, which has his name."""
        return replace(cls.of(name, address), is_welcome=is_welcome, user=name)


TellFailed = Callable[[Visitor, str, str], None]
"""Is told of a visitor who is not let in, of the mechanism, and of the reason."""
TellEntered = Callable[[Visitor], None]
"""Is told of a visitor whom a token lets in."""


class Permits(Protocol):
    """May a visitor do something with something? ``silently``: the audit is not told that he may not."""

    def __call__(
        self, visitor: Visitor, operation: AclOperation, resource: Resource, name: str, /, *, silently: bool = False
    ) -> bool: ...


class Sight:
    """What one visitor may see and do.

    Args:
        permits: says so, at the time it is asked.
    """

    def __init__(self, permits: Permits, visitor: Visitor) -> None:
        self._permits = permits
        self._visitor = visitor

    @property
    def is_welcome(self) -> bool:
        """Whether his token and his cookie are still good."""
        return self._visitor.is_welcome()

    @property
    def user(self) -> str | None:
        """The name of his token; None where there are no tokens."""
        return self._visitor.user

    @property
    def sees_all(self) -> bool:
        """Whether he sees every group in lists."""
        return self._permits(self._visitor, AclOperation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, silently=True)

    def sees(self, group_id: str) -> bool:
        """Whether a group is in the lists that he is shown; what is about no group has an empty id."""
        return self.sees_all or (bool(group_id) and self.may_see(group_id))

    def may_see(self, group_id: str) -> bool:
        """Whether he may look at a group itself."""
        return self._permits(self._visitor, AclOperation.DESCRIBE, Resource.GROUP, group_id, silently=True)

    def check_cluster(self, operation: AclOperation) -> None:
        """Let him do something with the cluster. Raises `Problem`."""
        if not self._permits(self._visitor, operation, Resource.CLUSTER, CLUSTER_NAME):
            raise Problem(403, f"{self._visitor.session.principal} may not: it takes {operation.name} on the cluster")

    def check_group(self, group_id: str) -> None:
        """Let him see a group. To him it does not exist otherwise. Raises `Problem`."""
        if not self._permits(self._visitor, AclOperation.DESCRIBE, Resource.GROUP, group_id):
            raise Problem(404, f"there is no group {group_id!r}")


def everything(
    visitor: Visitor, operation: AclOperation, resource: Resource, name: str, /, *, silently: bool = False
) -> bool:
    """What is permitted where there are no rules."""
    return True


EVERYTHING: Final = Sight(everything, Visitor(Session()))
