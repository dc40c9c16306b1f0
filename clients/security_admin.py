"""`SecurityAdmin`: an admin client for users, by their SCRAM credentials, and for access control rules."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.clients.admin import Admin
from ottla.clients.admin_calls import Outcomes, outcome
from ottla.clients.errors import check
from ottla.protocol.messages import alter_user_scram_credentials as alter_users
from ottla.protocol.messages import create_acls, delete_acls, describe_acls
from ottla.protocol.messages import describe_user_scram_credentials as describe_users
from ottla.protocol.sasl.scram import Mechanism, salted_password

SALT_BYTES = 32
ITERATIONS = 8192
"""Twice what is the least: about 5 ms of CPU for each login of a client."""


class AclRule(NamedTuple):
    """An access control rule, or a filter of rules; numbers are those of Kafka's protocol, 1 and None fit all."""

    resource_type: int = 1
    resource_name: str | None = None
    pattern_type: int = 1
    principal: str | None = None
    host: str | None = None
    operation: int = 1
    permission_type: int = 1


class SecurityAdmin(Admin):
    """An admin client for users and rules. Its options are those of `AdminOptions`."""

    async def list_users(self) -> dict[str, list[tuple[Mechanism, int]]]:
        """All users who have SCRAM credentials: mechanisms and iterations by name (KIP-554)."""
        request = describe_users.DescribeUserScramCredentialsRequest(users=None)

        async def attempt() -> dict[str, list[tuple[Mechanism, int]]]:
            answer = await self._calls.send(
                self._calls.controller, request, describe_users.DescribeUserScramCredentialsResponse
            )
            check(answer.error_code, "list the users", answer.error_message)
            return {
                one.user: [(Mechanism(info.mechanism), info.iterations) for info in one.credential_infos]
                for one in sorted(answer.results, key=lambda one: one.user)
            }

        return await self._calls.again(attempt)

    async def set_user(self, name: str, password: str, mechanism: Mechanism, iterations: int = ITERATIONS) -> None:
        """Set the password of a user; the broker learns what it needs to check it, and not the password."""
        salt = secrets.token_bytes(SALT_BYTES)
        salted = await asyncio.to_thread(salted_password, mechanism, password, salt, iterations)
        upsertion = alter_users.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
        )
        await self._alter_user(f"set the password of user {name!r}", upsertions=[upsertion])

    async def remove_user(self, name: str, mechanism: Mechanism) -> None:
        """Remove a credential of a user."""
        deletion = alter_users.ScramCredentialDeletion(name=name, mechanism=mechanism)
        await self._alter_user(f"remove the {mechanism.words} credential of user {name!r}", deletions=[deletion])

    async def _alter_user(
        self,
        subject: str,
        deletions: Sequence[alter_users.ScramCredentialDeletion] = (),
        upsertions: Sequence[alter_users.ScramCredentialUpsertion] = (),
    ) -> None:
        request = alter_users.AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))

        async def attempt() -> None:
            answer = await self._calls.send(
                self._calls.controller, request, alter_users.AlterUserScramCredentialsResponse
            )
            for one in answer.results:
                check(one.error_code, subject, one.error_message)

        await self._calls.again(attempt)

    async def list_acls(self, wanted: AclRule = AclRule()) -> list[AclRule]:  # noqa: B008 - a tuple
        """The rules that a filter selects (KIP-140)."""
        request = describe_acls.DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission_type,
        )

        async def attempt() -> list[AclRule]:
            answer = await self._calls.send(self._calls.any_node, request, describe_acls.DescribeAclsResponse)
            check(answer.error_code, "list the rules", answer.error_message)
            return [
                AclRule(
                    one.resource_type, one.resource_name, one.pattern_type,
                    acl.principal, acl.host, acl.operation, acl.permission_type,
                )
                for one in answer.resources
                for acl in one.acls
            ]  # fmt: skip

        return await self._calls.again(attempt)

    async def add_acls(self, rules: Iterable[AclRule]) -> None:
        """Add rules; one that is there already is none the more.

        Raises:
            KafkaError, SomeFailed: as every call for several things.
        """

        async def attempt(pending: list[AclRule]) -> Outcomes[AclRule, None]:
            creations = [
                create_acls.AclCreation(
                    resource_type=one.resource_type,
                    resource_name=one.resource_name or "",
                    resource_pattern_type=one.pattern_type,
                    principal=one.principal or "",
                    host=one.host or "",
                    operation=one.operation,
                    permission_type=one.permission_type,
                )
                for one in pending
            ]
            request = create_acls.CreateAclsRequest(creations=creations)
            answer = await self._calls.send(self._calls.controller, request, create_acls.CreateAclsResponse)
            return {
                rule: outcome(None, one.error_code, f"add the rule for {rule.principal!r}", one.error_message)
                for rule, one in zip(pending, answer.results, strict=False)
            }

        await self._calls.for_each(rules, attempt)

    async def remove_acls(self, filters: Iterable[AclRule]) -> dict[AclRule, list[AclRule]]:
        """Remove the rules that filters select; those that were removed, by filter. Raises as `add_acls` does."""

        async def attempt(pending: list[AclRule]) -> Outcomes[AclRule, list[AclRule]]:
            rows = [
                delete_acls.DeleteAclsFilter(
                    resource_type_filter=one.resource_type,
                    resource_name_filter=one.resource_name,
                    pattern_type_filter=one.pattern_type,
                    principal_filter=one.principal,
                    host_filter=one.host,
                    operation=one.operation,
                    permission_type=one.permission_type,
                )
                for one in pending
            ]
            request = delete_acls.DeleteAclsRequest(filters=rows)
            answer = await self._calls.send(self._calls.controller, request, delete_acls.DeleteAclsResponse)
            return {
                wanted: outcome(
                    [
                        AclRule(
                            acl.resource_type, acl.resource_name, acl.pattern_type,
                            acl.principal, acl.host, acl.operation, acl.permission_type,
                        )
                        for acl in found.matching_acls
                        if not acl.error_code
                    ],
                    found.error_code,
                    "remove rules",
                    found.error_message,
                )
                for wanted, found in zip(pending, answer.filter_results, strict=False)
            }  # fmt: skip

        return await self._calls.for_each(filters, attempt)
