"""The options of the pipeline's commands: those of `ottla.pipeline.config.Config`, each where it has a meaning."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.cli.connecting import connecting_options, source_options
from ottla.pipeline.config import SETTINGS, ConfigError, key, load

F = TypeVar("F", bound=Callable[..., Any])

READ = (
    "bootstrap_server",
    "log_dir",
    "cluster_id",
    "isolation",
    "fail_on_data_loss",
    "tasks",
    "sample_interval",
    "kafka",
)
WRITE = ("lake", "format", "keep_raw")
STREAM = ("starting_offsets", "max_offsets_per_trigger", "trigger")
GOLD = ("lake", "slo", "slo_groups")
SPARK = ("master", "driver_memory", "spark_conf")
_BOOTSTRAP = "OTTLA_BOOTSTRAP_SERVERS"


def with_config(*groups: tuple[str, ...], **texts: str) -> Callable[[F], F]:
    """``--config`` and the options of these settings; the command gets ``config`` as its first argument.

    Args:
        texts: help of settings that mean something else in this command, by their names.
    """
    names = [name for group in groups for name in group]

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(config_file: Path | None, **given: Any) -> Any:
            options = {name: _given(name, given.pop(name)) for name in names}
            if "kafka" in options and not options.get("log_dir") and (secured := source_options()):
                options["kafka"] = secured | (options["kafka"] or {})
            try:
                config = load(config_file, options=options, bootstrap=os.environ.get(_BOOTSTRAP, ""))
            except ConfigError as error:
                raise click.UsageError(f"{error}.") from None
            return function(config, **given)

        wrapped: Any = connecting_options(call) if "bootstrap_server" in names else call
        for name in reversed(names):
            wrapped = _option(name, texts.get(name))(wrapped)
        return click.option(  # type: ignore[no-any-return]
            "--config",
            "config_file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="A TOML file with any of the options as keys; options win.",
        )(wrapped)

    return decorate


def since_option(text: str) -> Callable[[F], F]:
    """``--since DATE``."""
    return click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help=text)


def _option(name: str, text: str | None) -> Callable[[F], F]:
    setting = SETTINGS[name]
    about = setting.metadata
    flags = [f"--{key(name)}", *([about["short"]] if "short" in about else [])]
    text = text or about["text"]
    if about.get("kind") == "map":
        single = f"--{key(name).removesuffix('s')}"
        return click.option(single, name, multiple=True, metavar=about["metavar"], help=f"{text} Repeatable.")
    if isinstance(setting.default, bool):
        text += f"  [default: {'yes' if setting.default else 'no'}]"
        return click.option(f"{flags[0]}/--no-{key(name)}", name, default=None, help=text)
    if setting.default is not None:
        text += f"  [default: {about.get('shown', setting.default)}]"
    if name == "bootstrap_server":
        text += f"  [env var: {_BOOTSTRAP}]"
    kind: Any = str
    if "choices" in about:
        kind = click.Choice(about["choices"])
    elif "least" in about:
        kind = click.IntRange(about["least"])
    return click.option(*flags, name, type=kind, default=None, metavar=about["metavar"] or None, help=text)


def _given(name: str, value: Any) -> Any:
    """An option as the file would have it; None if it was not given."""
    about = SETTINGS[name].metadata
    if about.get("kind") != "map":
        return value
    pairs: dict[str, Any] = {}
    for text in value:
        left, equals, right = text.rpartition("=") if about["values"] == "span" else text.partition("=")
        if not left or not equals:
            raise click.UsageError(f"--{key(name).removesuffix('s')} {text!r}: write {about['metavar']}")
        pairs[left] = right
    return pairs or None
