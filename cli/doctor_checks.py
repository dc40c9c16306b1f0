"""The checks of `ottla doctor`. Each returns a finding; none raises."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.disk import Latency, measure
from ottla.cli.greeting import bind_error
from ottla.cli.output import count_of
from ottla.protocol.stored.cluster_file import whole_of

if TYPE_CHECKING:
    from ottla.broker.net.tls import Contexts
    from ottla.broker.setting_sources import Loaded

OK, WARN, FAIL = "ok", "warn", "fail"
GIB = 1 << 30
MIB = 1 << 20

_VOLATILE = {"tmpfs", "ramfs", "devtmpfs"}
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "sshfs", "davfs"}
_TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised
_LIBRARIES = ("ottla", "construct", "google-crc32c", "cramjam", "structlog", "uvloop", "click", "rich")
_OLDEST_PLAUSIBLE_S = 1_700_000_000


@dataclass
class Finding:
    """The result of a check. ``advice`` says what to do about a warning or a failure."""

    check: str
    verdict: str
    found: str
    advice: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def nearest(path: Path) -> Path:
    """The directory itself, or the first above it that exists."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def check_versions() -> Finding:
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    words = f"ottla {found['ottla'] or '?'}, Python {found['python']}, {found['system']}"
    if not found["uvloop"]:
        return Finding("versions", WARN, f"{words}; without uvloop", "Install uvloop: requests take less time.", found)
    return Finding("versions", OK, words, details=found)


def check_clock(now: Callable[[], float] = time.time, state: Callable[[], int | None] | None = None) -> Finding:
    """Timestamps of records and retention go by the system's clock."""
    seconds = now()
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    if seconds < _OLDEST_PLAUSIBLE_S:
        return Finding("clock", FAIL, f"it is {moment}", "Set the system's clock: retention goes by it.")
    if (state or _clock_state)() == _TIME_ERROR:
        return Finding(
            "clock",
            WARN,
            f"{moment}, not synchronised",
            "Run chrony, ntpd or systemd-timesyncd: timestamps of records and retention go by this clock.",
        )
    return Finding("clock", OK, moment)


def _clock_state() -> int | None:
    """The state of the kernel's clock; None where it cannot be asked."""
    try:
        return int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512)))
    except (OSError, AttributeError):
        return None


def check_open_files(limit: Callable[[], tuple[int, int]] | None = None) -> Finding:
    """A connection takes one, and so does every segment that is read or written."""
    soft, hard = (limit or (lambda: resource.getrlimit(resource.RLIMIT_NOFILE)))()
    details = {"soft": soft, "hard": hard}
    advice = "Raise it: `ulimit -n 65536`, or LimitNOFILE=65536 in the systemd unit."
    if 0 <= soft < 256:
        return Finding("open files", FAIL, f"at most {soft:,}", advice, details)
    if 0 <= soft < 4096:
        return Finding("open files", WARN, f"at most {soft:,}: enough for few clients", advice, details)
    return Finding("open files", OK, "unlimited" if soft < 0 else f"at most {soft:,}", details=details)


# -- the directory and its volume


def check_directory(path: Path, is_open: Callable[[Path], bool]) -> Finding:
    """Whether a broker could keep its data there."""
    at = nearest(path)
    if path.exists() and not path.is_dir():
        return Finding("directory", FAIL, f"{path} is a file", "Name a directory with --data-dir.")
    if (whole := whole_of(path)) is not None:
        return Finding(
            "directory", FAIL, f"{path} belongs to node {path.name} of {whole}", f"Name {whole} with --data-dir."
        )
    if not os.access(at, os.W_OK | os.X_OK):
        return Finding("directory", FAIL, f"{at} cannot be written to", "Give the user of the broker the directory.")
    if is_open(path):
        return Finding("directory", OK, f"{path}, open in a broker now")
    if not path.exists():
        return Finding("directory", OK, f"{path} does not exist yet; a broker makes it")
    kind = "has logs" if (path / "logs").is_dir() else "has no logs yet"
    return Finding("directory", OK, f"{path} {kind}")


def check_filesystem(path: Path, mounts: str | None = None) -> Finding:
    """Whether what is written stays, and whether a sync means something."""
    place, kind = filesystem_of(nearest(path), mounts)
    details = {"kind": kind, "mounted_at": place}
    words = f"{kind or 'unknown'} at {place}"
    if kind in _VOLATILE:
        advice = "Put the data on a disk with --data-dir; what is here is gone when the machine stops."
        return Finding("filesystem", WARN, f"{words}: memory, not a disk", advice, details)
    if kind in _REMOTE or kind.startswith("fuse"):
        advice = "Put the data on a local disk: locks and syncs are not to be relied on over a network."
        return Finding("filesystem", WARN, f"{words}: not a local disk", advice, details)
    if kind == "overlay":
        advice = "Mount a volume at the data directory; what is in a container's layer goes with the container."
        return Finding("filesystem", WARN, f"{words}: the layer of a container", advice, details)
    return Finding("filesystem", OK, words, details=details)


def filesystem_of(path: Path, mounts: str | None = None) -> tuple[str, str]:
    """The mount point of a directory's volume, and its kind; empty if unknown."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return "/", ""
    best = ("", "")
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        if not separator:
            continue
        place = before.split()[4].replace("\\040", " ")
        # Of mounts over each other the last one counts.
        if len(place) >= len(best[0]) and path.resolve().is_relative_to(place):
            best = (place, after.split()[0])
    return best


def check_space(path: Path, volume: Callable[[Path], os.statvfs_result] = os.statvfs) -> Finding:
    """Room for the journal, and for what comes."""
    try:
        found = volume(nearest(path))
    except OSError as error:
        return Finding("space", FAIL, f"cannot be told: {error.strerror}", "Check the volume of --data-dir.")
    total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    details = {"total_bytes": total, "usable_bytes": free, "free_files": found.f_favail}
    words = f"{free / GIB:,.1f} of {total / GIB:,.1f} GiB free"
    if free < 256 * MIB or (found.f_files and found.f_favail < 100):
        advice = "Make room, or shorten log.retention.ms: a broker refuses to write without any."
        return Finding("space", FAIL, words, advice, details)
    if free < 2 * GIB or free < total // 20:
        return Finding("space", WARN, words, "Make room soon, or shorten log.retention.ms.", details)
    return Finding("space", OK, words, details=details)


def check_disk(path: Path, seconds: float, measured: Callable[[Path, float], list[Latency]] | None = None) -> Finding:
    """Appends and syncs on the volume of the data."""
    at = nearest(path)
    try:
        results = measured(at, seconds) if measured else measure(at, seconds=seconds)
    except OSError as error:
        return Finding("disk", FAIL, f"cannot be written to: {error.strerror}", "Check the volume of --data-dir.")
    small = next(one for one in results if one.size == 4096 and not one.grown)
    one_client, many = commits_per_second(small)
    details = {
        "measured_in": str(at),
        "latencies": [one.as_json() for one in results],
        "durable_commits_per_second": {"one_client": round(one_client), "64_clients": round(many)},
    }
    words = (
        f"4 kB durable in {_time(small.total_p50)} (p99 {_time(small.total_p99)}): it allows about "
        f"{one_client:,.0f} commits/s of one client, {many:,.0f} of 64 that share each sync"
    )
    if small.sync_p50 > 0.020 or small.sync_p99 > 0.250:
        advice = "A slow disk for acknowledgements: use an SSD, or ottla.durability=interval for topics that may lose."
        return Finding("disk", WARN, words, advice, details)
    if small.sync_p50 < 0.000_005:
        advice = "A sync that takes no time reaches no disk: what was acknowledged may be lost with the power."
        return Finding("disk", WARN, words, advice, details)
    return Finding("disk", OK, words, details=details)


def commits_per_second(small: Latency) -> tuple[float, float]:
    """Of one client that waits each time, and of 64 whose commits share a sync. Disk time alone; an upper bound."""
    rate = 1 / max(small.total_p50, 1e-6)
    return rate, 64 * rate


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def disk_lines(finding: Finding) -> list[str]:
    """The measurements of `check_disk`, one a line."""
    lines = []
    for one in finding.details.get("latencies", ()):
        append = f"append p50 {one['append_p50_ms']:.3f} p99 {one['append_p99_ms']:.3f} ms"
        sync = f"fdatasync p50 {one['fdatasync_p50_ms']:.3f} p99 {one['fdatasync_p99_ms']:.3f} ms"
        lines.append(f"{one['bytes'] // 1024:>3} kB into a {one['into']:<16}  {append}, {sync}")
    return lines


# -- settings


def check_settings(loaded: Loaded) -> Finding:
    """Keys that mean nothing, and values that cost something."""
    from ottla.broker.setting_sources import did_you_mean, is_of_clusters

    remarks = [f"{key} is not known{did_you_mean(key)}" for key in loaded.unknown if not is_of_clusters(key)]
    remarks += [f"{key} has no effect yet" for key in loaded.without_effect]
    remarks += risks(loaded)
    details = {
        "unknown": loaded.unknown,
        "without_effect": loaded.without_effect,
        "risks": risks(loaded),
    }
    given = len(loaded.settings.given) + len(loaded.settings.by_listener)
    if remarks:
        advice = "Mend or leave out what was not meant; `ottla serve --set KEY=VALUE` tries a value."
        return Finding("settings", WARN, "; ".join(remarks), advice, details)
    return Finding(
        "settings", OK, f"{given} given, the rest are defaults" if given else "all defaults", details=details
    )


def risks(loaded: Loaded) -> list[str]:
    """Values that are allowed and may surprise."""
    settings = loaded.settings
    found = []
    if settings.ottla_durability != "fsync":
        found.append(f"ottla.durability={settings.ottla_durability}: acknowledged records may be lost with the power")
    if 0 <= settings.log_retention_ms < 3_600_000:
        found.append(f"log.retention.ms={settings.log_retention_ms}: records go within an hour")
    if settings.offsets_retention_ms < 86_400_000:
        found.append("offsets.retention.minutes is less than a day: groups that pause lose their place")
    if settings.message_max_bytes > settings.socket_request_max_bytes:
        found.append("message.max.bytes is more than socket.request.max.bytes: such batches never arrive")
    if settings.default_replication_factor > 1:
        found.append("default.replication.factor is more than 1: with one node topics cannot be created")
    if settings.super_users and not settings.authorizer_class_name:
        found.append("super.users means nothing without authorizer.class.name: there are no access rules")
    return found


# -- certificates


def check_certificate(
    listener: str,
    open_tls: Callable[[], Contexts],
    now_ms: Callable[[], int] | None = None,
) -> Finding:
    """Whether a listener has a certificate, for which names, and until when. ``open_tls`` does what a start does."""
    from ottla.broker.net.tls import DAY_MS, WARN_DAYS
    from ottla.broker.settings import BadSetting

    check = f"TLS of {listener}"
    try:
        tls = open_tls()
    except BadSetting as error:
        return Finding(check, FAIL, str(error), "A broker would not start with this.")
    first, last, warnings = tls.chain[0], tls.chain[-1], tls.warnings()
    days = (tls.ends_ms - (now_ms or (lambda: time.time_ns() // 1_000_000))()) // DAY_MS
    is_complete = last.signed_itself or last.issuer in _known_authorities()
    details = {
        "subject": first.subject,
        "names": first.names,
        "until": tls.until,
        "days_left": days,
        "chain_complete": is_complete,
        "warnings": warnings,
    }
    if faults := tls.faults():
        advice = "A broker would start with this, but no client could connect."
        return Finding(check, FAIL, "; ".join(faults), advice, details)
    words = f"{', '.join(first.names) or first.subject or 'no name'}, until {tls.until} ({count_of(days, 'day', ',')})"
    if not is_complete:
        words += f"; clients need the authority {last.issuer!r}, or the chain lacks its certificate"
    if warnings:
        return Finding(
            check,
            WARN,
            f"{words}; {'; '.join(warnings)}",
            "Mend it; the broker takes new files without a restart.",
            details,
        )
    if days < WARN_DAYS:
        return Finding(check, WARN, words, "Put a new certificate in its place; the broker needs no restart.", details)
    if not first.names:
        advice = "Have it issued for the names by which clients connect: most of them compare nothing else."
        return Finding(check, WARN, words, advice, details)
    return Finding(check, OK, words, details=details)


def _known_authorities() -> dict[str, None]:
    """The subjects of those that this machine trusts."""
    import ssl

    from ottla.broker.core.security.certificates import read_certificate

    found: dict[str, None] = {}
    for der in ssl.create_default_context().get_ca_certs(binary_form=True):
        with suppress(ValueError):
            found[read_certificate(der).subject] = None
    return found


# -- the network


def check_ports(addresses: Iterable[tuple[str, int]]) -> Finding:
    """Whether a broker could listen at all of them."""
    free, taken = [], []
    for host, port in addresses:
        where = f"{f'[{host}]' if ':' in host else host or '*'}:{port}"
        if (error := bind_error(host, port)) is None:
            free.append(where)
            continue
        # Python puts the address into what it says of a socket; what it says of a name has a number of its own kind.
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        taken.append(f"{where} cannot be taken: {reason}")
    if taken:
        advice = "Stop what listens there, or choose another port. If it is your broker, all is well."
        return Finding("port", WARN, "; ".join(taken), advice)
    return Finding("port", OK, f"{', '.join(free)} {'is' if len(free) == 1 else 'are'} free")


def check_broker(bootstrap: str, ask: Callable[[str], dict[str, Any]]) -> Finding:
    """Whether a broker answers, and how fast. ``ask`` gives cluster id, node id and round trips in seconds."""
    from ottla.cli.output import Refused

    try:
        found = ask(bootstrap)
    except Refused as error:
        return Finding("broker", FAIL, error.lines[0], " ".join(error.lines[1:]))
    trips = found.pop("round_trips")
    middle, slow = trips[len(trips) // 2], trips[-1]
    found |= {"round_trip_p50_ms": round(middle * 1000, 3), "round_trip_max_ms": round(slow * 1000, 3)}
    who = f"node {found['node_id']}" if found["brokers"] == 1 else f"{found['brokers']} brokers"
    words = f"{bootstrap}: {who} of cluster {found['cluster_id']}, answers in {_time(middle)}"
    if middle > 0.050:
        advice = "Groups feel every round trip: run clients near the broker, or look for what keeps it busy."
        return Finding("broker", WARN, words, advice, found)
    return Finding("broker", OK, words, details=found)


def check_nodes(directory: Path) -> Finding | None:
    """Whether all nodes of a directory are up; None where there is one broker, or nothing runs."""
    from ottla.protocol.stored.cluster_file import DOWN, NODES_NAME, STARTING, BadClusterFile, read_cluster
    from ottla.protocol.stored.files import is_locked

    try:
        cluster = read_cluster(directory)
    except (BadClusterFile, OSError) as error:
        return Finding("nodes", FAIL, str(error), "The supervisor writes the file anew when it starts.")
    if cluster is None or not is_locked(directory / NODES_NAME):
        return None
    odd = [node for node in cluster.nodes.values() if not node.is_up or node.why]
    if not odd:
        return Finding("nodes", OK, f"all {len(cluster.nodes)} are up")
    failed = [node for node in odd if node.state == DOWN or (node.state == STARTING and node.why)]
    words = "; ".join(
        f"node {node.node_id} is {DOWN if node in failed else node.state}{node.why and f': {node.why}'}" for node in odd
    )
    if failed:
        return Finding("nodes", FAIL, words, "Its partitions have no leader until its supervisor can start it.")
    return Finding("nodes", WARN, words, "Look again in a moment; a process that hangs for good has to be ended.")


def worst(findings: Iterable[Finding]) -> str:
    """``fail`` before ``warn`` before ``ok``."""
    verdicts = {one.verdict for one in findings}
    return next((verdict for verdict in (FAIL, WARN) if verdict in verdicts), OK)
