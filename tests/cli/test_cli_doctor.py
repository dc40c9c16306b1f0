"""`ottla doctor`: checks with made-up machines, and the command on this one."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.setting_sources import load
from ottla.cli.disk import Latency, measure, quantile
from ottla.cli.doctor_checks import (
    FAIL,
    OK,
    WARN,
    Finding,
    check_broker,
    check_clock,
    check_directory,
    check_disk,
    check_filesystem,
    check_open_files,
    check_ports,
    check_settings,
    check_space,
    check_versions,
    commits_per_second,
    disk_lines,
    filesystem_of,
    worst,
)
from ottla.cli.output import Refused
from tests.cli.commands import HERE

GIB = 1 << 30


def checks(*arguments: object, expect: int = 0) -> dict[str, Any]:
    found = HERE.json("doctor", *arguments, expect=expect)
    return {"verdict": found["verdict"], **{one["check"]: one for one in found["checks"]}}


# -- the disk


def test_appends_are_measured_by_the_clock(tmp_path: Path) -> None:
    now = [0.0]
    synced = []

    def clock() -> float:
        now[0] += 0.001
        return now[0]

    def sync(handle: int) -> None:
        synced.append(os.fstat(handle).st_size)
        now[0] += 0.010

    results = measure(tmp_path, seconds=0.5, clock=clock, sync=sync)
    assert [(one.size, one.grown) for one in results] == [
        (4096, False),
        (4096, True),
        (65536, False),
        (65536, True),
    ]
    for one in results:
        assert (round(one.append_p50, 3), round(one.sync_p50, 3), round(one.sync_p99, 3)) == (0.001, 0.011, 0.011)
        assert 10 <= one.appends <= 500
    filled = synced[: results[0].appends + 1]
    assert set(filled) == {1 << 20}, "the size of a file filled in advance does not change"
    grown = synced[len(filled) : len(filled) + results[1].appends + 1]
    assert grown == [4096 * number for number in range(results[1].appends + 1)]
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_behind_when_the_disk_is_full(tmp_path: Path) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space"):
        measure(tmp_path, sync=full)
    assert list(tmp_path.iterdir()) == []


def test_quantiles() -> None:
    numbers = [float(number) for number in range(100, 0, -1)]
    assert (quantile(numbers, 0.5), quantile(numbers, 0.99)) == (51.0, 100.0)
    assert quantile([3.0], 0.99) == 3.0


def latencies(sync_p50: float, sync_p99: float) -> Callable[[Path, float], list[Latency]]:
    rows = [Latency(4096, False, 9, 0.0, 0.0, sync_p50, sync_p99), Latency(4096, True, 9, 0.0, 0.0, 1.0, 2.0)]
    return lambda path, seconds: rows


@pytest.mark.parametrize(
    ("p50", "p99", "verdict", "words"),
    [
        (0.0001, 0.0002, OK, "4 kB durable in 0.10 ms (p99 0.20 ms)"),
        (0.025, 0.030, WARN, "25.00 ms"),
        (0.001, 0.300, WARN, "p99 300.00 ms"),
        (0.000001, 0.000002, WARN, "0.00 ms"),
    ],
)
def test_what_a_disk_is_worth(tmp_path: Path, p50: float, p99: float, verdict: str, words: str) -> None:
    finding = check_disk(tmp_path / "not" / "there", 1.0, latencies(p50, p99))
    assert (finding.verdict, bool(finding.advice)) == (verdict, verdict != OK)
    assert words in finding.found
    assert finding.details["measured_in"] == str(tmp_path)
    assert len(disk_lines(finding)) == 2


def test_clients_that_wait_at_once_share_a_sync() -> None:
    one, many = commits_per_second(Latency(4096, False, 9, 0.0001, 0.0, 0.0009, 0.0))
    assert (round(one), round(many)) == (1000, 64000)


def test_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    def full(path: Path, seconds: float) -> list[Latency]:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert check_disk(tmp_path, 1.0, full) == Finding(
        "disk", FAIL, "cannot be written to: No space left on device", "Check the volume of --data-dir."
    )


# -- directory, filesystem, space

MOUNTS = """\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 21 0:26 / /tmp rw,nosuid shared:5 - tmpfs tmpfs rw
31 21 0:27 / /srv/my\\040data rw - nfs4 server:/x rw
32 21 0:28 / /srv/remote rw - fuse.sshfs x rw
33 21 0:29 / /layer rw - overlay overlay rw
34 30 254:2 / /tmp/disk rw - xfs /dev/vdb rw
35 21 254:3 / /over rw - tmpfs tmpfs rw
36 21 254:4 / /over rw - ext4 /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("path", "place", "kind"),
    [
        ("/var/lib/ottla", "/", "ext4"),
        ("/tmp/x", "/tmp", "tmpfs"),
        ("/tmpfile", "/", "ext4"),
        ("/tmp/disk/data", "/tmp/disk", "xfs"),
        ("/srv/my data/1", "/srv/my data", "nfs4"),
        ("/over/x", "/over", "ext4"),
    ],
)
def test_the_volume_of_a_directory(path: str, place: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == (place, kind)


@pytest.mark.parametrize(
    ("kind", "verdict", "words"),
    [
        ("ext4", OK, "ext4 at /"),
        ("tmpfs", WARN, "memory"),
        ("nfs4", WARN, "not a local disk"),
        ("fuse.sshfs", WARN, "not a local disk"),
        ("overlay", WARN, "container"),
    ],
)
def test_filesystems_that_keep_nothing(tmp_path: Path, kind: str, verdict: str, words: str) -> None:
    finding = check_filesystem(tmp_path / "absent", f"1 0 0:1 / / rw - {kind} x rw\n")
    assert (finding.verdict, finding.details) == (verdict, {"kind": kind, "mounted_at": "/"})
    assert words in finding.found


@pytest.mark.parametrize(
    ("free_gib", "files", "verdict"),
    [(50, 10_000, OK), (4, 10_000, WARN), (1, 10_000, WARN), (0.1, 10_000, FAIL), (50, 5, FAIL)],
)
def test_room(tmp_path: Path, free_gib: float, files: int, verdict: str) -> None:
    blocks = int(free_gib * GIB) // 4096
    volume: Any = SimpleNamespace(
        f_blocks=100 * GIB // 4096, f_frsize=4096, f_bavail=blocks, f_favail=files, f_files=20_000
    )
    finding = check_space(tmp_path, lambda path: volume)
    assert (finding.verdict, finding.details["usable_bytes"]) == (verdict, blocks * 4096)
    assert bool(finding.advice) == (verdict != OK)


def test_directories(tmp_path: Path) -> None:
    def closed(path: Path) -> bool:
        return False

    assert "does not exist yet" in check_directory(tmp_path / "a" / "b", closed).found
    (tmp_path / "logs").mkdir()
    assert check_directory(tmp_path, closed).found.endswith("has logs")
    assert "open in a broker" in check_directory(tmp_path, lambda path: True).found
    (tmp_path / "file").touch()
    assert check_directory(tmp_path / "file", closed).verdict == FAIL


# -- the rest of the machine


@pytest.mark.parametrize(("soft", "verdict"), [(-1, OK), (65536, OK), (1024, WARN), (64, FAIL)])
def test_open_files(soft: int, verdict: str) -> None:
    assert check_open_files(lambda: (soft, 4096)).verdict == verdict


@pytest.mark.parametrize(
    ("now", "state", "verdict"), [(1.8e9, 0, OK), (1.8e9, None, OK), (1.8e9, 5, WARN), (1000.0, 0, FAIL)]
)
def test_clocks(now: float, state: int | None, verdict: str) -> None:
    assert check_clock(lambda: now, lambda: state).verdict == verdict


def test_versions_are_those_installed() -> None:
    finding = check_versions()
    assert finding.details["construct"] and finding.details["ottla"] in finding.found


def test_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        finding = check_ports([("127.0.0.1", 0), ("127.0.0.1", port)])
        assert finding.verdict == WARN and finding.found.startswith(f"127.0.0.1:{port} cannot be taken: ")
    finding = check_ports([("127.0.0.1", 0), ("::1", 0)][: 1 + socket.has_ipv6])
    assert finding.verdict == OK and finding.found.startswith("127.0.0.1:0")
    if socket.has_ipv6:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
            # A broker at localhost takes both addresses of loopback.
            finding = check_ports([("localhost", taken.getsockname()[1])])
            assert finding.verdict == WARN and finding.found.endswith("cannot be taken: Address already in use")
    assert check_ports([("192.0.2.1", 0)]).verdict == WARN


def test_brokers() -> None:
    def answer(seconds: float) -> Callable[[str], dict[str, Any]]:
        return lambda bootstrap: {"cluster_id": "c", "node_id": 1, "brokers": 1, "round_trips": [seconds] * 20}

    quick = check_broker("h:1", answer(0.0004))
    assert (quick.verdict, quick.details["round_trip_p50_ms"]) == (OK, 0.4)
    assert check_broker("h:1", answer(0.2)).verdict == WARN

    def silent(bootstrap: str) -> dict[str, Any]:
        raise Refused("No broker answers at h:1.", "Start one.")

    assert check_broker("h:1", silent) == Finding("broker", FAIL, "No broker answers at h:1.", "Start one.")


# -- settings


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({"log.retension.ms": "5"}, "log.retension.ms is not known; did you mean log.retention.ms?"),
        ({"ottla.durability": "os"}, "may be lost with the power"),
        ({"log.retention.minutes": "5"}, "go within an hour"),
        ({"offsets.retention.minutes": "60"}, "lose their place"),
        ({"message.max.bytes": "200000000"}, "never arrive"),
        ({"default.replication.factor": "3"}, "cannot be created"),
    ],
)
def test_settings_that_surprise(pairs: dict[str, str], words: str) -> None:

    finding = check_settings(load(pairs))
    assert (finding.verdict, bool(finding.advice)) == (WARN, True)
    assert words in finding.found


def test_settings_that_do_not() -> None:
    assert check_settings(load({})).found == "all defaults"
    finding = check_settings(load({"num.partitions": "3", "log.retention.ms": "-1"}))
    assert (finding.verdict, finding.found) == (OK, "2 given, the rest are defaults")


def test_the_worst_verdict_counts() -> None:
    rows = {name: Finding("x", name, "") for name in (OK, WARN, FAIL)}
    assert worst([rows[OK], rows[WARN]]) == WARN
    assert worst([rows[WARN], rows[FAIL], rows[OK]]) == FAIL
    assert worst([]) == OK


# -- the command


def test_this_machine(tmp_path: Path) -> None:
    found = checks("--data-dir", tmp_path / "data", "--disk-time", "10ms", "--listen", "127.0.0.1:0")
    assert set(found) == {
        "verdict", "versions", "clock", "open files", "settings", "directory", "filesystem", "space", "disk", "port",
    }  # fmt: skip
    assert [one["appends"] >= 10 for one in found["disk"]["details"]["latencies"]] == [True] * 4
    assert found["disk"]["details"]["durable_commits_per_second"]["one_client"] > 0
    assert not (tmp_path / "data").exists()
    text = HERE.run("doctor", "--data-dir", tmp_path, "--disk-time", "10ms", "--listen", "127.0.0.1:0").stdout
    assert "fdatasync p50" in text and "versions" in text


def test_the_directory_and_the_port_are_those_of_the_settings(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    (tmp_path / "kept" / "logs").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        properties.write_text(f"log.dirs={tmp_path / 'kept'}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nno.such.key=1\n")
        found = checks("--config", properties, "--no-disk")
    assert found["directory"]["found"] == f"{tmp_path / 'kept'} has logs"
    assert found["port"]["verdict"] == WARN and str(port) in found["port"]["found"]
    assert found["settings"]["details"]["unknown"] == ["no.such.key"]
    assert "disk" not in found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num.partitions", "0"),
        ("listeners", "PLAINTEXT://:0"),
        ("ottla.http.listen", "0.0.0.0:9644"),
        ("ssl.engine.factory.class", "com.example.Engine"),
    ],
)
def test_a_setting_that_no_broker_starts_with(key: str, value: str, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"{key}={value}\n")
    found = checks("--data-dir", tmp_path, "--no-disk", "--config", properties, expect=1)
    assert (found["verdict"], found["settings"]["verdict"]) == (FAIL, FAIL)
    assert key in found["settings"]["found"]


def test_an_audit_file_that_cannot_be_written(tmp_path: Path) -> None:
    given = ("--data-dir", tmp_path / "data", "--set", f"ottla.audit.file={tmp_path / 'nowhere' / 'audit'}")
    found = checks("--no-disk", "--listen", "127.0.0.1:0", *given, expect=1)["audit"]
    assert found["verdict"] == FAIL and f"there is no directory {tmp_path / 'nowhere'}" in found["found"]
    assert found["found"] in HERE.run("serve", "--check", "--listen", "127.0.0.1:0", *given, expect=2).stderr
    assert "audit" not in checks("--no-disk", "--listen", "127.0.0.1:0", "--set", f"ottla.audit.file={tmp_path / 'a'}")


def test_each_port_is_looked_at(tmp_path: Path) -> None:
    given = ("--no-disk", "--data-dir", tmp_path, "--set", "listeners=PLAINTEXT://127.0.0.1:0,B://127.0.0.1:0")
    found = checks(*given, "--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT")["port"]
    assert (found["verdict"], found["found"]) == (OK, "127.0.0.1:0, 127.0.0.1:0 are free")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = checks(*given[:3], "--listen", "127.0.0.1:0", "--set", f"ottla.http.listen={port}")["port"]
    assert (found["verdict"], found["found"].startswith(f"127.0.0.1:{port} cannot be taken: ")) == (WARN, True)


def test_a_slip_of_set(tmp_path: Path) -> None:
    HERE.run("doctor", "--no-disk", "--set", "log.retension.ms=1", expect=1)


def test_a_broker_that_has_the_directory_open(tmp_path: Path) -> None:
    (tmp_path / "LOCK").touch()
    with (tmp_path / "LOCK").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        found = checks("--data-dir", tmp_path, "--no-disk", "--listen", "127.0.0.1:0")
    assert found["directory"]["found"].endswith("open in a broker now")


def test_a_broker_is_asked(ottla_broker_factory: Callable[..., Any], tmp_path: Path) -> None:
    broker = ottla_broker_factory()
    found = checks("--data-dir", tmp_path, "--no-disk", "-b", broker.bootstrap_servers)
    assert found["broker"]["verdict"] in (OK, WARN)
    assert found["broker"]["details"]["node_id"] == 1
    assert "port" not in found
    assert checks("--data-dir", tmp_path, "--no-disk", "-b", "127.0.0.1:1", expect=1)["broker"]["verdict"] == FAIL


# -- access


def test_passwords_that_go_over_the_network_as_they_are(tmp_path: Path) -> None:
    words = ["--data-dir", tmp_path / "data", "--no-disk", "--set", "listeners=SASL_PLAINTEXT://localhost:0"]
    found = checks(*words, "--set", "sasl.enabled.mechanisms=PLAIN")["SASL of SASL_PLAINTEXT"]
    assert found["verdict"] == WARN
    assert "SASL of SASL_PLAINTEXT" not in checks(*words, "--set", "sasl.enabled.mechanisms=SCRAM-SHA-512")


def test_what_is_open_to_other_machines(tmp_path: Path) -> None:
    here = ("--data-dir", tmp_path, "--no-disk")
    assert "access" not in checks(*here)
    found = checks(*here, "--set", "listeners=PLAINTEXT://0.0.0.0:0", "--set", "ottla.insecure=true")["access"]
    assert found["verdict"] == WARN
    assert "whoever reaches it may do everything: PLAINTEXT://0.0.0.0:0 (nothing is encrypted" in found["found"]


def test_super_users_without_rules() -> None:
    given = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    assert check_settings(load(given)).verdict == OK
    finding = check_settings(load({"super.users": "User:admin"}))
    assert finding.verdict == WARN and "there are no access rules" in finding.found


def test_keys_of_listeners_are_counted() -> None:
    given = {"listeners": "A://:0", "listener.security.protocol.map": "A:SSL", "listener.name.a.ssl.key.password": "x"}
    assert check_settings(load(given)).found == "3 given, the rest are defaults"
