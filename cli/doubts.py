"""What `ottla serve` warns of before it starts a broker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ottla.broker.endpoints import Endpoint
from ottla.broker.setting_sources import Loaded, is_of_clusters, meant_by
from ottla.broker.settings import BadSetting, Settings
from ottla.cli.listening import openings

if TYPE_CHECKING:
    from ottla.broker.core.security.scram import Credentials
    from ottla.cli.doctor_checks import Finding

_SEEN = "A password was given as an argument, which others on this machine can see"


def tell_findings(
    settings: Settings,
    found: Sequence[Endpoint],
    directory: Path | None,
    config_file: str | None,
    pairs: Sequence[str],
    users: Credentials,
    log: Any,
) -> None:
    """Log what `ottla doctor` warns of in the settings and their files.

    Raises:
        BadSetting: it fails one of them.
    """
    from ottla.cli.doctor_access import of_configuration

    tell(of_configuration(settings, found, directory, config_file, pairs, users=users), log)


def tell(findings: Sequence[Finding], log: Any) -> None:
    """Log the warnings among findings. Raises BadSetting with those that fail."""
    from ottla.cli.doctor_checks import FAIL, WARN

    for one in findings:
        if one.verdict == WARN:
            log.warning(one.check[:1].upper() + one.check[1:], reason=one.found, advice=one.advice)
    if failed := [f"{one.check}: {one.found}" for one in findings if one.verdict == FAIL]:
        raise BadSetting("; ".join(failed))


def warn_of_passwords(url: str, add_scram: Sequence[str], log: Any) -> None:
    """Warn of passwords among the arguments. ``url`` is that of the cluster."""
    if seen := password_in(url):
        log.warning(seen)
    if add_scram:
        log.warning(f"{_SEEN}: use --users-file FILE")


def password_in(url: str) -> str:
    """What there is to be said of the URL of a cluster that stands among the arguments; empty if nothing."""
    return f"{_SEEN}: use OTTLA_CLUSTER_URL, PGPASSWORD or a passfile" if urlsplit(url).password else ""


def warn(loaded: Loaded, found: Sequence[Endpoint], log: Any) -> None:
    """Say what of the settings is not done, and what is open."""
    if (opening := openings(found, loaded.settings)) is not None:
        log.warning(opening[0], listen=opening[1])
    if loaded.settings.super_users and not loaded.settings.authorizer_class_name:
        log.warning("There are no access rules: super.users means nothing without authorizer.class.name")
    if (factor := loaded.settings.default_replication_factor) > 1:
        why = f"default.replication.factor={factor}, and there are no replicas"
        log.warning("No topic can be created without a replication factor of 1 of its own", reason=why)
    slips = {key: meant for key in loaded.unknown if (meant := meant_by(key))}
    for key, meant in slips.items():
        log.warning("Unknown setting is ignored", key=key, did_you_mean=meant)
    unknown = [key for key in loaded.unknown if key not in slips]
    needless = [*filter(is_of_clusters, unknown), *(f"{key} {listener}" for key, listener in loaded.left_out)]
    for level, what, keys in (
        (log.info, "Settings that one broker alone does not need are left out", needless),
        (log.warning, "Unknown settings are ignored", [key for key in unknown if not is_of_clusters(key)]),
        (log.warning, "Settings that have no effect here", loaded.without_effect),
    ):
        if keys:
            level(what, keys=", ".join(keys))
