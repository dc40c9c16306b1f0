"""``--cluster``, ``--schema``, ``--config`` and ``--set``: the database to which a command goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from ottla.cli.output import warn

if TYPE_CHECKING:
    from ottla.broker.setting_sources import Loaded

T = TypeVar("T")


class Place(NamedTuple):
    """The database of a cluster, as it was named."""

    url: str | None
    schema: str | None
    config_file: str | None
    pairs: tuple[str, ...]

    def loaded(self) -> Loaded:
        """The settings of nodes there. Raises `click.UsageError` if they cannot be, or name no database."""
        from ottla.broker.settings import BadSetting
        from ottla.cli.serve import settings_of

        named = {"ottla.cluster.url": self.url, "ottla.cluster.schema": self.schema}
        pairs = [f"{key}={value}" for key, value in named.items() if value]
        try:
            loaded = settings_of(self.config_file, (*pairs, *self.pairs))
        except BadSetting as error:
            raise click.UsageError(f"{error}.") from None
        if not loaded.settings.ottla_cluster_url:
            raise click.UsageError("Name the database of the cluster: --cluster postgresql://…, or OTTLA_CLUSTER_URL.")
        return loaded


def _without_password(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Warn of a password in the command line, which whoever lists processes sees."""
    if value and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
        from ottla.cli.doubts import password_in

        if seen := password_in(value):
            warn(seen)
    return value


_OPTIONS = (
    click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="One setting, as for `ottla serve`."),
    click.option(
        "--config",
        "config_file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="The nodes' properties file.",
    ),
    click.option("--schema", envvar="OTTLA_CLUSTER_SCHEMA", show_envvar=True, help="The schema of its tables. [ottla]"),
    click.option(
        "--cluster",
        "url",
        metavar="URL",
        envvar="OTTLA_CLUSTER_URL",
        show_envvar=True,
        callback=_without_password,
        help="The database that the nodes share, as postgresql://USER@HOST:PORT/DATABASE.",
    ),
)


def of_database(function: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options by which a database is named; its function gets them as ``place``."""

    @wraps(function)
    def command(
        *, url: str | None, schema: str | None, config_file: str | None, pairs: tuple[str, ...], **options: Any
    ) -> T:
        return function(place=Place(url, schema, config_file, pairs), **options)

    made: Callable[..., T] = command
    for option in _OPTIONS:
        made = option(made)
    return made
