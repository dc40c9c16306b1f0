"""`ottla doctor` about certificates, and what `ottla serve --check` says of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.cli.doctor_checks import FAIL, OK, WARN
from tests.cli.commands import HERE
from tests.cli.test_cli_doctor import checks

AUTHORITY = trustme.CA()
EXTERNAL = ("--set", "listener.security.protocol.map=EXTERNAL:SSL")


def tls_of(tmp_path: Path, expect: int = 0, **issued: Any) -> dict[str, Any]:
    """What is found of a listener whose certificate is issued so."""
    leaf = AUTHORITY.issue_cert(*issued.pop("names", ["localhost"]), **issued)
    file = tmp_path / "broker.pem"
    file.write_bytes(leaf.private_key_and_cert_chain_pem.bytes())
    file.chmod(0o600)
    words = ["--data-dir", tmp_path / "data", "--no-disk", "--set", f"ssl.keystore.location={file}"]
    words += ["--set", "listeners=EXTERNAL://localhost:0", *EXTERNAL]
    found: dict[str, Any] = checks(*words, expect=expect)["TLS of EXTERNAL"]
    return found


def test_a_certificate(tmp_path: Path) -> None:
    found = tls_of(tmp_path, names=["broker.example", "10.0.0.1"])
    assert found["verdict"] == OK
    assert found["found"].startswith("broker.example, 10.0.0.1, until 3000-01-01 00:00:00Z (")
    assert "clients need the authority 'OU=Testing CA" in found["found"]
    assert found["details"]["names"] == ["broker.example", "10.0.0.1"]
    assert not found["details"]["chain_complete"]
    assert found["details"]["days_left"] > 300_000


def test_a_certificate_that_ends_soon_or_has_ended(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    soon = tls_of(tmp_path, not_before=now - timedelta(days=1), not_after=now + timedelta(days=3, hours=1))
    assert (soon["verdict"], soon["details"]["days_left"], "(3 days)" in soon["found"]) == (WARN, 3, True)
    assert "Put a new certificate in its place" in soon["advice"]
    ended = tls_of(tmp_path, 1, not_before=now - timedelta(days=9), not_after=now - timedelta(days=1))
    assert (ended["verdict"], ended["advice"]) == (FAIL, "A broker would start with this, but no client could connect.")
    assert "the certificate ended at" in ended["found"]


@pytest.mark.parametrize(
    ("names", "listeners", "advertised", "missing", "verdict"),
    [
        (["kafka.example"], "SSL://localhost:0", "", "", OK),
        (["kafka.example"], "SSL://:0", "", "the address at which they reached the broker", WARN),
        (["kafka.example", "10.0.0.1"], "SSL://:0", "", "", OK),
        (["localhost", "127.0.0.1", "::1"], "SSL://:0", "", "the address at which they reached the broker", WARN),
        (["localhost", "127.0.0.1", "::1"], "SSL://127.0.0.1:0", "", "", OK),
        (["kafka.example"], "SSL://Kafka.example:9093", "", "", OK),
        (["kafka.example"], "SSL://other.example:9093", "", "other.example", FAIL),
        (["kafka.example"], "SSL://localhost:9093", "", "localhost", FAIL),
        (["kafka.example"], "SSL://:0", "SSL://Kafka.example:9093", "", OK),
        (["*.example"], "SSL://:0", "SSL://kafka.example:9093", "", OK),
        (["*.example"], "SSL://:0", "SSL://a.kafka.example:9093", "a.kafka.example", FAIL),
        (["kafka.example"], "SSL://:0", "SSL://10.0.0.1:9093", "10.0.0.1", FAIL),
    ],
)
def test_what_clients_are_told_stands_in_the_certificate(
    tmp_path: Path, names: list[str], listeners: str, advertised: str, missing: str, verdict: str
) -> None:
    """`ottla serve --check` says the same."""
    file = tmp_path / "broker.pem"
    file.write_bytes(AUTHORITY.issue_cert(*names).private_key_and_cert_chain_pem.bytes())
    file.chmod(0o600)
    given = {"ssl.keystore.location": file, "listeners": listeners, "advertised.listeners": advertised}
    pairs = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    more = ("--set", "ottla.insecure=true", "--data-dir", tmp_path / "data")
    found = checks(*pairs, *more, "--no-disk", expect=verdict == FAIL)["TLS of SSL"]
    assert found["verdict"] == verdict
    assert (f"clients are told {missing}, and" in found["found"]) is bool(missing)
    assert ("advertised.listeners" in found["found"] + found["advice"]) is bool(missing)
    checked = HERE.run("serve", "--check", *pairs, *more, expect=2 * (verdict == FAIL))
    said = " ".join(checked.output.split())
    assert (f"clients are told {missing}, and" in said) is bool(missing)
    assert ("A broker would start and listen" in said) is (verdict != FAIL)


def test_a_fault_of_several_listeners_is_told_once(tmp_path: Path) -> None:
    """By a start, too."""
    file = tmp_path / "broker.pem"
    file.write_bytes(AUTHORITY.issue_cert("kafka.example").private_key_and_cert_chain_pem.bytes())
    file.chmod(0o600)
    given = {"ssl.keystore.location": file, "listeners": "SSL://:0,B://:0", "ottla.insecure": "true"}
    given["listener.security.protocol.map"] = "SSL:SSL,B:SSL"
    pairs = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    assert checks("--data-dir", tmp_path / "data", *pairs, "--no-disk")["TLS of SSL, B"]["verdict"] == WARN
    said = HERE.run("serve", "--check", "--ephemeral", *pairs).stderr
    assert (said.count("is not for that, but for kafka.example"), "TLS of SSL, B" in said) == (1, True)
    broken = ("--set", f"ssl.keystore.location={tmp_path}/none.pem")
    said = " ".join(HERE.run("serve", "--check", "--ephemeral", *pairs, *broken, expect=2).stderr.split())
    assert (said.count("cannot be read"), "TLS of SSL, B: " in said) == (1, True)


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    words = ["--data-dir", tmp_path / "data", "--no-disk", "--set", "ssl.keystore.location=/nowhere/b.pem"]
    found = checks(*words, "--set", "listeners=SSL://localhost:0", expect=1)["TLS of SSL"]
    assert found["verdict"] == FAIL
    assert found["found"].startswith("ssl.keystore.location=/nowhere/b.pem: cannot be read")


def test_a_cipher_suite_that_encrypts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "broker.pem"
    file.write_bytes(AUTHORITY.issue_cert("localhost").private_key_and_cert_chain_pem.bytes())
    given = {"ssl.keystore.location": file, "listeners": "SSL://localhost:0"}
    given |= {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_NULL_SHA", "ssl.enabled.protocols": "TLSv1.2"}
    pairs = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    said = "ssl.cipher.suites: TLS_ECDHE_ECDSA_WITH_NULL_SHA does not encrypt"
    assert said in checks("--data-dir", tmp_path / "data", *pairs, "--no-disk", expect=1)["TLS of SSL"]["found"]
    assert said in " ".join(HERE.run("serve", "--check", "--ephemeral", *pairs, expect=2).output.split())
