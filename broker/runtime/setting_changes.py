"""What goes with changes of settings that clients make (KIP-226): keys and certificates, and lines in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ottla.broker.core.configs.alterations import Alteration, names_keys
from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.configs.kinds import ResourceType
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.topics.catalog import Catalog
from ottla.broker.logger import Logger
from ottla.broker.settings import BadSetting, Settings
from ottla.protocol.errors import ErrorCode

Refusals: TypeAlias = list[Refusal | None]
Report: TypeAlias = Callable[[Catalog, Catalog], None]
"""Is given the catalogs before and after a change of settings, once it is durable."""


def no_report(before: Catalog, after: Catalog) -> None:
    """Where nobody wants to know."""


LOGGED_CHANGES = 20
"""Changes of settings that are logged without a pause."""


class Keys:
    """Keys and certificates of listeners: tried before the change is durable, and used after it.

    Attributes:
        renew: uses the keys and certificates that settings name, or, where the second argument is True, only looks
            whether they can be used; may raise BadSetting. None where no listener has TLS.
    """

    def __init__(self, log: Logger) -> None:
        self.renew: Callable[[Settings, bool], Awaitable[None]] | None = None
        self._log = log
        self._are_named = False

    async def tried(
        self,
        before: Catalog,
        planned: tuple[Catalog, Refusals],
        layers: Callable[[Catalog], BrokerConfigs],
        alterations: Sequence[Alteration],
    ) -> tuple[Catalog, Refusals]:
        """See whether what the alterations name can be used. If not, nothing of the broker is changed.

        Args:
            planned: the catalog after the change, and for each alteration why it is refused, or None.
            layers: gives the settings of a catalog.

        Returns:
            The same as they are then.
        """
        after, refusals = planned
        named = [names_keys(one) and not refusal for one, refusal in zip(alterations, refusals, strict=True)]
        self._are_named = self.renew is not None and any(named)
        if self.renew is None or not self._are_named:
            return planned
        try:
            await self.renew(layers(after).settings, True)
        except BadSetting as error:
            self._are_named = False
            fault = Refusal(ErrorCode.INVALID_CONFIG, str(error))
            of_broker = [one.resource_type == ResourceType.BROKER for one in alterations]
            refused = [old or (fault if is_it else None) for old, is_it in zip(refusals, of_broker, strict=True)]
            return replace(after, broker_configs=before.broker_configs), refused
        return planned

    async def use(self, settings: Settings) -> None:
        """Use what was tried last, if it was keys and certificates."""
        if self.renew is not None and self._are_named:
            try:
                await self.renew(settings, False)
            except BadSetting as error:  # a file is another one since it was tried
                self._log.error("Keys and certificates stay as they were", reason=str(error))


async def tell(alterations: Sequence[Alteration], refusals: Refusals, log: Logger) -> None:
    """Log the changes that were made. Values may be secrets of a plugin that we do not know."""
    for number, (alteration, refusal) in enumerate(zip(alterations, refusals, strict=True), 1):
        if not number % LOGGED_CHANGES:
            await asyncio.sleep(0)
        if refusal is None:
            log.info(
                "settings changed",
                resource_type=ResourceType(alteration.resource_type).name.lower(),
                resource=alteration.resource_name,
                keys=[change.name for change in alteration.changes],
            )
