"""The systemd unit and the Kubernetes manifest start a broker that serves, and say what the documents say of them."""

from __future__ import annotations

import json
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

from ottla.broker.endpoints import address_of
from ottla.cli.listening import check_http, listeners, openings
from ottla.cli.serve import command, settings_of
from ottla.observe.http.access import FOR_ALL
from ottla.observe.http.address import is_loopback
from ottla.testing import BrokerProcess
from tests.house.fences import Reader, fences, missing_tools
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
SECURE = ROOT / "examples/kubernetes-secure"
SECURED: dict[str, Any] = yaml.safe_load((SECURE / "statefulset.yaml").read_text(encoding="utf-8"))
SECURED_POD: dict[str, Any] = SECURED["spec"]["template"]["spec"]
SECURED_CONTAINER: dict[str, Any] = SECURED_POD["containers"][0]
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


def test_the_secure_pod_is_the_same_but_for_what_makes_it_secure() -> None:
    assert yaml.safe_load((SECURE / "kustomization.yaml").read_text())["resources"] == ["../kubernetes"]
    assert yaml.safe_load((ROOT / "examples/kubernetes/kustomization.yaml").read_text())["resources"] == ["ottla.yaml"]
    assert SECURED["metadata"].items() <= MANIFEST["StatefulSet"]["metadata"].items()
    assert SECURED_CONTAINER["name"] == CONTAINER["name"]
    given, before = (options(list(one["args"])) for one in (SECURED_CONTAINER, CONTAINER))
    assert (
        not given["insecure"]
        and {one["name"]: one["value"] for one in SECURED_CONTAINER["env"]}["OTTLA_INSECURE"] == "false"
    ), "the image says true"
    settings = settings_of(None, (*given["pairs"], f"ottla.http.listen={given['http']}")).settings
    (one,) = listeners(settings)
    assert one.protocol == "SASL_SSL" and one.advertised == tuple(address_of(before["advertise"], ""))
    assert openings([one], settings) is None
    assert [given[name] for name in ("http", "data_dir", "log_format")] == [before[name] for name in (
        "http", "data_dir", "log_format")]  # fmt: skip
    assert given["http_tls"] and all(
        SECURED_CONTAINER[probe]["httpGet"] == {"scheme": "HTTPS"} for probe in ("livenessProbe", "readinessProbe")
    )
    mounted = {one["mountPath"]: one["name"] for one in SECURED_CONTAINER["volumeMounts"]}
    secrets = {one["name"]: one["secret"] for one in SECURED_POD["volumes"]}
    for path in (given["users_file"], given["http_token_file"], settings.ssl_keystore_location):
        assert secrets[mounted[str(Path(path).parent)]]["defaultMode"] == 0o440


@pytest.mark.e2e
@pytest.mark.skipif(bool(missing_tools("openssl")), reason="there is no openssl")
def test_the_secure_pod_serves_whom_its_secrets_name(tmp_path: Path) -> None:
    """Made as docs/running.md says, with the folder of the test for the volumes."""
    page = [one for one in fences(ROOT / "docs/running.md") if one.language == "console" or one.file_name]
    begin = next(number for number, one in enumerate(page) if "openssl" in one.text)
    with Reader(tmp_path) as reader:
        for fence in page[begin:]:
            reader.follow(fence, without=("kubectl",))
        (properties,) = tmp_path.glob("*.properties")
        places = ("/etc/ottla/tls", "/etc/ottla/users", "/var/lib/ottla")

        def here(text: str) -> str:
            for place in places:
                text = text.replace(place, str(tmp_path))
            return reader.here(text.replace("ottla.ottla.svc:", "localhost:").replace("0.0.0.0", "localhost"))

        properties.write_text(here(properties.read_text()))
        told = [f"{one['name']}={shlex.quote(here(one['value']))}" for one in SECURED_CONTAINER["env"]]
        reader.say(f"unset OTTLA_LISTENERS; export {' '.join(told)}")
        reader.say(f"ottla {shlex.join(map(here, SECURED_CONTAINER['args']))} 2> broker.log &")
        reader.say("ottla groups list", ["There are no groups"])
        reader.say("env -u OTTLA_COMMAND_CONFIG ottla groups list", code=1)
        log = map(json.loads, (tmp_path / "broker.log").read_text().splitlines())
        failed = [line for line in log if line["event"] == "authentication_failed" or line["level"] != "info"]
        assert {line.get("mechanism") for line in failed} == {"TLS"}, "of who tried it without"


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
