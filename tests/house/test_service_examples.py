"""The systemd unit and the Kubernetes manifest start a broker that serves, and say what the documents say of them."""

from __future__ import annotations

import re
import shlex
import sys
import urllib.request
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ottla.cli.listening import check_http, listeners
from ottla.cli.serve import command, settings_of
from ottla.observe.http.access import FOR_ALL
from ottla.observe.http.address import is_loopback
from ottla.testing import BrokerProcess
from tests.house.sources import ROOT
from tests.support.processes import Child
from tests.support.waiting import wait_for

UNIT = RawConfigParser(strict=False)
UNIT.optionxform = str  # type: ignore[method-assign, assignment]
UNIT.read(ROOT / "examples/systemd/ottla.service", encoding="utf-8")
SERVICE = UNIT["Service"]
PROPERTIES = ROOT / "examples/systemd/ottla.properties"
MANIFEST: dict[str, Any] = {
    one["kind"]: one
    for one in yaml.safe_load_all((ROOT / "examples/kubernetes/ottla.yaml").read_text(encoding="utf-8"))
}
POD: dict[str, Any] = MANIFEST["StatefulSet"]["spec"]["template"]["spec"]
CONTAINER: dict[str, Any] = POD["containers"][0]
USER = re.search(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)


def options(arguments: list[str]) -> dict[str, Any]:
    """What `ottla serve` understands of its arguments. Raises where it would refuse them."""
    assert arguments.pop(0) == "serve"
    return command.make_context("serve", arguments).params


def unit_arguments() -> list[str]:
    return shlex.split(SERVICE["ExecStart"])[1:]


def test_options_are_checked_by_this() -> None:
    with pytest.raises(click.NoSuchOption):
        options(["serve", "--listens", ":9092"])


def test_the_unit_keeps_its_data_where_it_may() -> None:
    given = options([part.replace("/etc/ottla/ottla.properties", str(PROPERTIES)) for part in unit_arguments()])
    assert SERVICE["DynamicUser"] == "yes" and SERVICE["StateDirectoryMode"] == "0700"
    assert given["data_dir"] == f"/var/lib/{SERVICE['StateDirectory']}"
    assert int(SERVICE["LimitNOFILE"]) >= 65_536
    assert int(SERVICE["TimeoutStopSec"]) >= 30
    assert SERVICE["Restart"] == "on-failure" and SERVICE["RestartPreventExitStatus"].split() == ["1", "2"]


def test_the_units_settings_exist_and_open_nothing() -> None:
    loaded = settings_of(str(PROPERTIES), ())
    assert (loaded.unknown, loaded.without_effect) == ([], [])
    check_http(loaded.settings)
    (one,) = listeners(loaded.settings)
    assert (one.host, one.port) == ("localhost", 9092) and not loaded.settings.ottla_insecure


def test_the_manifest_says_that_it_is_open() -> None:
    given = options(list(CONTAINER["args"]))
    for name in ("listen", "http"):
        assert not is_loopback(given[name].rpartition(":")[0])
    assert given["insecure"], "a listener that other pods reach"
    assert settings_of(None, given["pairs"]).unknown == []
    assert MANIFEST["NetworkPolicy"]["spec"]["podSelector"] == MANIFEST["StatefulSet"]["spec"]["selector"]
    (rule,) = MANIFEST["NetworkPolicy"]["spec"]["ingress"]
    assert rule["from"] and all("podSelector" in one for one in rule["from"]), "each entry by itself lets in"


def test_the_manifest_fits_together() -> None:
    given = options(list(CONTAINER["args"]))
    labels = MANIFEST["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert labels == MANIFEST["Service"]["spec"]["selector"]
    ports = {one["name"]: one["containerPort"] for one in CONTAINER["ports"]}
    assert ports == {one["targetPort"]: one["port"] for one in MANIFEST["Service"]["spec"]["ports"]}
    assert [given["listen"], given["http"]] == [f"0.0.0.0:{ports['kafka']}", f"0.0.0.0:{ports['http']}"]
    name, namespace = (MANIFEST["Service"]["metadata"][key] for key in ("name", "namespace"))
    assert given["advertise"] == f"{name}.{namespace}.svc:{ports['kafka']}"
    assert {MANIFEST[kind]["metadata"].get("namespace", namespace) for kind in MANIFEST} == {"ottla"}
    probes = {CONTAINER[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")}
    assert probes == set(FOR_ALL)
    assert MANIFEST["StatefulSet"]["spec"]["replicas"] == 1
    assert POD["terminationGracePeriodSeconds"] >= 30


def test_the_manifest_may_write_to_its_volume_alone() -> None:
    assert USER is not None
    security = POD["securityContext"]
    assert [str(security[key]) for key in ("runAsUser", "runAsGroup", "fsGroup")] == [USER[1], USER[2], USER[2]]
    assert security["runAsNonRoot"] and security["fsGroupChangePolicy"] == "OnRootMismatch"
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {one["name"]: Path(one["mountPath"]) for one in CONTAINER["volumeMounts"]}
    claimed = MANIFEST["StatefulSet"]["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]
    directory = Path(options(list(CONTAINER["args"]))["data_dir"])
    assert directory.parent == mounts[claimed], "a folder of the volume, which may hold lost+found at its top"


@pytest.mark.e2e
@pytest.mark.parametrize("arguments", [unit_arguments(), CONTAINER["args"]], ids=["systemd", "kubernetes"])
def test_a_broker_starts_with_the_arguments(arguments: list[str], tmp_path: Path) -> None:
    """On free ports and in a folder of the test, but with everything else as it stands there."""
    home = tmp_path / "volume"
    home.mkdir(mode=0o770)
    here = [part.replace("/var/lib/ottla", str(home)) for part in arguments]
    here = [part.replace("/etc/ottla/ottla.properties", str(PROPERTIES)) for part in here]
    with BrokerProcess(http=True) as other:  # it has found a free port for HTTP
        http = other.http_url
    address = http.removeprefix("http://")
    ottla = [sys.executable, "-m", "ottla.cli", *here, "--listen", "127.0.0.1:0", "--http", address]
    printed: list[str] = []
    log = (tmp_path / "log").open("w+")
    broker = Child(ottla, printed.append, log)
    try:
        wait_for(lambda: printed or broker.wait(0), "the broker's address")
        assert re.fullmatch(r"[\w.]+:\d+\n", "".join(printed)), (log.seek(0), log.read())
        for path in FOR_ALL:
            with urllib.request.urlopen(http + path, timeout=10) as answer:
                assert answer.status == 200
    finally:
        broker.process.terminate()
        assert broker.wait(30) and broker.process.returncode == 0
        broker.kill()
        log.close()
    assert list(home.glob("**/meta.properties"))
