"""TLS of listeners: what settings may name, what becomes of it, and new files while a broker runs."""

from __future__ import annotations

import datetime
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from ottla.broker.net.keystores import others_may_read
from ottla.broker.net.tls import Contexts, contexts_of_http, principal_of
from ottla.broker.settings import BadSetting, Settings

CA, OTHER_CA = trustme.CA(), trustme.CA()
BROKER = CA.issue_cert("localhost")
ALICE = CA.issue_cert(common_name="alice", organization_name="o", organization_unit_name="u")
STRANGER = OTHER_CA.issue_cert(common_name="alice")


def written(path: Path, *parts: bytes) -> str:
    path.write_bytes(b"".join(parts))
    path.chmod(0o600)
    return str(path)


def pem_of(leaf: trustme.LeafCert) -> bytes:
    return leaf.private_key_and_cert_chain_pem.bytes()


@pytest.fixture
def pem(tmp_path: Path) -> str:
    """A file with the key and the certificate of a broker."""
    return written(tmp_path / "broker.pem", pem_of(BROKER))


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    return written(tmp_path / "ca.pem", CA.cert_pem.bytes())


def contexts(**settings: Any) -> Contexts:
    return Contexts(Settings(**settings), "SSL")


def handshakes(
    server: ssl.SSLContext, leaf: trustme.LeafCert | None = None, change: Callable[[ssl.SSLContext], None] | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection whose handshake is through: the client's, the broker's. Raises ``ssl.SSLError``."""
    client = ssl.create_default_context()
    CA.configure_trust(client)
    if leaf is not None:
        leaf.configure_cert(client)
    if change is not None:
        change(client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(6):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends


def handshake(server: ssl.SSLContext, *more: Any, **others: Any) -> ssl.SSLObject:
    """The broker's end."""
    return handshakes(server, *more, **others)[1]


def refusal(**settings: Any) -> str:
    with pytest.raises(BadSetting) as caught:
        contexts(**settings)
    assert caught.value.__cause__ is None and "secret" not in str(caught.value)
    return str(caught.value)


# keystores


def test_a_file_with_key_and_chain(pem: str) -> None:
    made = contexts(ssl_keystore_location=pem)
    assert made.warnings() == []
    assert handshake(made.context).version() == "TLSv1.3"


@pytest.mark.parametrize("line_break", ["\n", "\\n", " ", "\r\n"])
def test_pem_in_the_settings_themselves(line_break: str) -> None:
    key = BROKER.private_key_pem.bytes().decode().replace("\n", line_break)
    chain = BROKER.cert_chain_pems[0].bytes().decode().replace("\n", line_break)
    made = contexts(ssl_keystore_key=key, ssl_keystore_certificate_chain=chain)
    assert handshake(made.context).version() == "TLSv1.3"


def test_the_key_in_a_file_of_its_own(tmp_path: Path) -> None:
    chain = written(tmp_path / "tls.crt", BROKER.cert_chain_pems[0].bytes())
    key = written(tmp_path / "tls.key", BROKER.private_key_pem.bytes())
    handshake(contexts(ssl_keystore_location=chain, ottla_tls_key_location=key).context)
    assert "no private key" in (said := refusal(ssl_keystore_location=chain))
    assert f"ssl.keystore.location={chain}" in said and "ottla.tls.key.location" in said


def test_an_encrypted_key(tmp_path: Path) -> None:
    key = load_pem_private_key(BROKER.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    file = written(tmp_path / "broker.pem", encrypted, BROKER.cert_chain_pems[0].bytes())
    handshake(contexts(ssl_keystore_location=file, ssl_key_password="secret").context)
    assert "set ssl.key.password" in refusal(ssl_keystore_location=file)
    assert "ssl.key.password may be wrong" in refusal(ssl_keystore_location=file, ssl_key_password="other-secret")


def test_pkcs12(tmp_path: Path) -> None:
    key: Any = load_pem_private_key(BROKER.private_key_pem.bytes(), None)
    own = load_pem_x509_certificate(BROKER.cert_chain_pems[0].bytes())
    authorities = [load_pem_x509_certificate(CA.cert_pem.bytes())]
    packed = pkcs12.serialize_key_and_certificates(b"b", key, own, authorities, BestAvailableEncryption(b"secret"))
    file = written(tmp_path / "broker.p12", packed)
    trust = pkcs12.serialize_key_and_certificates(None, None, None, authorities, NoEncryption())
    trusted = written(tmp_path / "trust.p12", trust)
    made = contexts(
        ssl_keystore_type="PKCS12",
        ssl_keystore_location=file,
        ssl_keystore_password="secret",
        ssl_truststore_type="PKCS12",
        ssl_truststore_location=trusted,
        ssl_client_auth="required",
    )
    assert handshake(made.context, ALICE).getpeercert(True)
    assert "is no PKCS12, or ssl.keystore.password is not its password" in refusal(
        ssl_keystore_type="PKCS12", ssl_keystore_location=file, ssl_keystore_password="no-secret"
    )
    assert "set ssl.keystore.type=PKCS12" in refusal(ssl_keystore_location=file)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="no Java")
@pytest.mark.slow
def test_what_keytool_makes(tmp_path: Path) -> None:
    for kind, file in (("JKS", "old.jks"), ("PKCS12", "new.p12")):
        command = ["keytool", "-genkeypair", "-alias", "b", "-keyalg", "EC", "-dname", "CN=broker", "-storetype", kind]
        words = ["-keystore", str(tmp_path / file), "-storepass", "secret", "-keypass", "secret"]
        subprocess.run([*command, *words], check=True, capture_output=True)
    said = refusal(ssl_keystore_location=str(tmp_path / "old.jks"))
    assert "keytool -importkeystore -srckeystore" in said and "ssl.keystore.type=PKCS12" in said
    made = contexts(
        ssl_keystore_type="PKCS12", ssl_keystore_location=str(tmp_path / "new.p12"), ssl_keystore_password="secret"
    )
    assert made.chain[0].subject == "CN=broker"


def test_a_keystore_of_java_is_refused_with_the_way_out(tmp_path: Path) -> None:
    file = written(tmp_path / "broker.jks", bytes.fromhex("feedfeed00000002"))
    said = refusal(ssl_keystore_location=file)
    assert said.startswith(f"ssl.keystore.location={file}: ")
    assert f"keytool -importkeystore -srckeystore {file} -destkeystore broker.p12 -deststoretype PKCS12" in said
    assert refusal(ssl_keystore_location=file, ssl_keystore_password="secret") == said


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "ssl.keystore.location: TLS takes a certificate and its key"),
        ({"ssl_keystore_location": "/nowhere/b.pem"}, "ssl.keystore.location=/nowhere/b.pem: cannot be read: No such"),
        ({"ssl_keystore_key": "secret"}, "ssl.keystore.certificate.chain: ssl.keystore.key is set"),
        ({"ssl_keystore_certificate_chain": "x"}, "ssl.keystore.key: ssl.keystore.certificate.chain is set"),
        (
            {"ssl_keystore_certificate_chain": "x", "ssl_keystore_key": "secret"},
            "ssl.keystore.key: there is no private key in it",
        ),
        (
            {"ssl_keystore_certificate_chain": "x", "ssl_keystore_key": "secret", "ssl_keystore_location": "/b.pem"},
            "ssl.keystore.location=/b.pem: the keystore is in the settings as PEM already",
        ),
        ({"ssl_keystore_location": "/b.pem", "ssl_keystore_password": "secret"}, "ssl.keystore.password: PEM has no"),
    ],
)
def test_settings_that_name_no_keystore(settings: dict[str, Any], words: str) -> None:
    assert refusal(**settings).startswith(words)


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    file = written(tmp_path / "b.pem", ALICE.private_key_pem.bytes(), BROKER.cert_chain_pems[0].bytes())
    said = refusal(ssl_keystore_location=file)
    assert said == f"ssl.keystore.location={file}: the key does not belong to the first certificate of the chain"


def test_a_setting_of_a_listener_counts_for_it_and_is_named(tmp_path: Path, pem: str) -> None:
    own = {"internal.ssl.keystore.location": "/nowhere/b.pem"}
    settings = Settings(ssl_keystore_location=pem, by_listener=own)
    assert Contexts(settings, "EXTERNAL").context
    with pytest.raises(BadSetting, match=r"^listener.name.internal.ssl.keystore.location=/nowhere/b.pem: "):
        Contexts(settings, "INTERNAL")


# doubts


def good_in(year: int) -> trustme.LeafCert:
    """A certificate that is good from the beginning of a year on, for two days."""
    begin = datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)
    return CA.issue_cert("localhost", not_before=begin, not_after=begin + datetime.timedelta(days=2))


@pytest.mark.parametrize(
    ("year", "words"), [(2020, "ended at 2020-01-03 00:00:00Z"), (2120, "is not good before 2120-01-01 00:00:00Z")]
)
def test_what_no_client_takes_is_told_and_served(tmp_path: Path, year: int, words: str) -> None:
    """The message names the file of the certificate, not that of the key."""
    leaf = good_in(year)
    chain = written(tmp_path / "b.crt", leaf.cert_chain_pems[0].bytes())
    key = written(tmp_path / "b.key", leaf.private_key_pem.bytes())
    made = contexts(ssl_keystore_location=chain, ottla_tls_key_location=key)
    (said,) = made.faults()
    assert said.startswith(f"ssl.keystore.location={chain}: the certificate {words}, ")
    assert made.warnings() == []


def test_the_http_port_tells_of_itself(pem: str) -> None:
    settings = Settings(listeners="SSL://localhost:0", ssl_keystore_location=pem, ottla_http_tls=True)
    assert contexts_of_http(settings).listener == "HTTP"


def test_a_name_that_clients_are_told_and_that_the_certificate_is_not_for(pem: str) -> None:
    settings = Settings(ssl_keystore_location=pem)
    assert Contexts(settings, "SSL", told="LOCALHOST").faults() == []
    (said,) = Contexts(settings, "SSL", told="kafka.example").faults()
    assert "clients are told kafka.example, and the certificate is not for that, but for localhost; name" in said


def test_a_chain_that_is_not_in_order(tmp_path: Path) -> None:
    middle = CA.create_child_ca()
    leaf = middle.issue_cert("localhost")
    certificates = [one.bytes() for one in leaf.cert_chain_pems]
    for chain, doubts in (([*certificates, CA.cert_pem.bytes()], 0), ([certificates[0], CA.cert_pem.bytes()], 1)):
        file = written(tmp_path / "b.pem", leaf.private_key_pem.bytes(), *chain)
        found = contexts(ssl_keystore_location=file).warnings()
        assert ["not in order" in said for said in found] == [True] * doubts


def test_a_key_that_others_may_read(pem: str) -> None:
    os.chmod(pem, 0o640)
    (said,) = contexts(ssl_keystore_location=pem).warnings()
    assert said.endswith(f"chmod 600 {pem}")


@pytest.mark.parametrize(("mode", "owner", "doubts"), [(0o640, 0, 0), (0o644, 0, 1), (0o440, 10_001, 1), (0o400, 7, 0)])
def test_a_key_of_roots_may_be_read_by_a_group(
    monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, doubts: int
) -> None:
    """So Kubernetes mounts a secret for a process that is not root."""
    with monkeypatch.context() as process:
        process.setattr(os, "stat", lambda path: os.stat_result((mode, 0, 0, 1, owner, 10_001, 0, 0, 0, 0)))
        process.setattr(os, "geteuid", lambda: 10_001)
        found = others_may_read("key.pem")
    assert found is bool(doubts)


# protocols and cipher suites


def test_only_the_versions_that_are_enabled(pem: str) -> None:
    made = contexts(ssl_keystore_location=pem, ssl_enabled_protocols="TLSv1.2")
    assert handshake(made.context).version() == "TLSv1.2"

    def newest(client: ssl.SSLContext) -> None:
        client.minimum_version = ssl.TLSVersion.TLSv1_3

    with pytest.raises(ssl.SSLError):
        handshake(made.context, change=newest)


@pytest.mark.parametrize("name", ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"])
def test_a_cipher_suite_by_either_name(pem: str, name: str) -> None:
    end = handshake(contexts(ssl_keystore_location=pem, ssl_cipher_suites=name).context)
    cipher = end.cipher()
    assert cipher is not None and cipher[:2] == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2")


JAVAS_SUITES = {
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
}


def test_names_of_cipher_suites(pem: str) -> None:
    made = contexts(ssl_keystore_location=pem, ssl_cipher_suites=",".join(JAVAS_SUITES))
    found = [one["name"] for one in made.context.get_ciphers() if not one["name"].startswith("TLS_")]
    assert found == list(JAVAS_SUITES.values()), "in the broker's order"
    assert made.context.maximum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("suites", "words"),
    [
        ("TLS_ECDHE_RSA_WITH_NOTHING", "OpenSSL has no ECDHE-RSA-NOTHING"),
        ("HIGH", "OpenSSL has no HIGH"),
        ("@SECLEVEL=0", "OpenSSL has no @SECLEVEL=0"),
        ("TLS_AES_128_GCM_SHA256", "the suites of TLS 1.3 can only be used together or not at all"),
    ],
)
def test_cipher_suites_that_cannot_be(pem: str, suites: str, words: str) -> None:
    assert refusal(ssl_keystore_location=pem, ssl_cipher_suites=suites).startswith(f"ssl.cipher.suites: {words}")


@pytest.mark.parametrize(
    "suite",
    [
        "TLS_ECDHE_ECDSA_WITH_NULL_SHA",
        "TLS_RSA_WITH_NULL_SHA",
        "NULL-SHA256",
        "TLS_DH_anon_WITH_AES_128_CBC_SHA",
        "ADH-AES128-SHA",
        "AECDH-AES256-SHA",
        "SSL_RSA_EXPORT_WITH_RC4_40_MD5",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "ECDHE-RSA-DES-CBC3-SHA",
        "ECDHE-ECDSA-RC4-SHA",
    ],
)
def test_cipher_suites_that_protect_nothing(pem: str, suite: str) -> None:
    """Java has them disabled. Names of either kind are refused, beside a good one, too."""
    said = refusal(ssl_keystore_location=pem, ssl_cipher_suites=f"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,{suite}")
    assert said.startswith(f"ssl.cipher.suites: {suite} does not encrypt, ")
    assert "none with NULL, anon, EXPORT, DES, RC4 or MD5 is allowed" in said


def test_cipher_suites_leave_the_strength_of_keys_as_it_is(pem: str) -> None:
    """Or certificates of clients with weak signatures would be taken."""
    wanted = contexts(ssl_keystore_location=pem).context.security_level
    made = contexts(ssl_keystore_location=pem, ssl_cipher_suites="ECDHE-ECDSA-AES128-GCM-SHA256")
    assert made.context.security_level == wanted > 0


# certificates of clients


def test_who_shows_no_certificate(pem: str, trusted: str) -> None:
    asked = {"ssl_keystore_location": pem, "ssl_truststore_location": trusted}
    wanted = contexts(**asked, ssl_client_auth="requested")
    assert handshake(wanted.context).getpeercert(True) is None
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        handshake(contexts(**asked, ssl_client_auth="required").context)


@pytest.mark.parametrize("auth", ["requested", "required"])
def test_certificates_are_held_against_the_authorities(pem: str, trusted: str, auth: str) -> None:
    made = contexts(ssl_keystore_location=pem, ssl_truststore_location=trusted, ssl_client_auth=auth)
    der = handshake(made.context, ALICE).getpeercert(True)
    assert der is not None
    assert principal_of(der, made.rules) == "User:CN=alice,OU=u,O=o"
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(made.context, STRANGER)


def test_the_truststore_may_hold_the_certificate_itself(tmp_path: Path, pem: str) -> None:
    own = written(tmp_path / "alice.pem", ALICE.cert_chain_pems[0].bytes())
    made = contexts(ssl_keystore_location=pem, ssl_truststore_location=own, ssl_client_auth="required")
    assert handshake(made.context, ALICE).getpeercert(True)


def test_authorities_in_the_settings_themselves(pem: str) -> None:
    text = CA.cert_pem.bytes().decode().replace("\n", "\\n")
    made = contexts(ssl_keystore_location=pem, ssl_truststore_certificates=text, ssl_client_auth="required")
    assert handshake(made.context, ALICE).getpeercert(True)


def test_nobody_is_asked_whose_certificate_nothing_can_be_held_against(pem: str) -> None:
    said = refusal(ssl_keystore_location=pem, ssl_client_auth="required")
    assert said.startswith("ssl.client.auth=required: ") and "ssl.truststore.location" in said


def test_with_sasl_only_the_setting_of_the_listener_asks_for_a_certificate(pem: str, trusted: str) -> None:
    asked = {"ssl_keystore_location": pem, "ssl_truststore_location": trusted}
    general = Settings(**asked, ssl_client_auth="required")  # type: ignore[arg-type]
    made = Contexts(general, "SASL_SSL", with_sasl=True)
    assert made.context.verify_mode == ssl.CERT_NONE
    (said,) = made.warnings()
    assert said.startswith("ssl.client.auth=required does not count for SASL_SSL") and "listener.name.sasl_ssl." in said
    own = Settings(**asked, by_listener={"sasl_ssl.ssl.client.auth": "required"})  # type: ignore[arg-type]
    made = Contexts(own, "SASL_SSL", with_sasl=True)
    assert made.context.verify_mode == ssl.CERT_REQUIRED
    assert made.warnings() == []


def test_certificates_that_are_revoked(tmp_path: Path, pem: str, trusted: str) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    alice = load_pem_x509_certificate(ALICE.cert_chain_pems[0].bytes())
    now = datetime.datetime.now(datetime.UTC)
    revoked = x509.RevokedCertificateBuilder().serial_number(alice.serial_number).revocation_date(now).build()
    authority: Any = load_pem_private_key(CA.private_key_pem.bytes(), None)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(load_pem_x509_certificate(CA.cert_pem.bytes()).subject)
        .last_update(now)
        .next_update(now + datetime.timedelta(days=1))
        .add_revoked_certificate(revoked)
    )
    crl = written(tmp_path / "crl.pem", builder.sign(authority, SHA256()).public_bytes(Encoding.PEM))
    made = contexts(
        ssl_keystore_location=pem,
        ssl_truststore_location=trusted,
        ssl_client_auth="required",
        ottla_tls_crl_location=crl,
    )
    with pytest.raises(ssl.SSLError, match="certificate revoked"):
        handshake(made.context, ALICE)
    assert handshake(made.context, CA.issue_cert(common_name="bob")).getpeercert(True)
    assert "X509 CRL" in refusal(ssl_keystore_location=pem, ottla_tls_crl_location=trusted)


def test_rules_that_cannot_be(pem: str) -> None:
    said = refusal(ssl_keystore_location=pem, ssl_principal_mapping_rules="RULE:(/x/")
    assert said.startswith("ssl.principal.mapping.rules: ")


# the command line


def checked(*options: str) -> tuple[int, str]:
    """What ``ottla serve --check`` says."""
    from ottla.cli.serve import command

    result = CliRunner().invoke(command, ["--ephemeral", "--check", "--listen", "127.0.0.1:0", *options])
    return result.exit_code, " ".join(result.output.split())


def test_keys_are_checked_without_a_start(tmp_path: Path, pem: str) -> None:
    code, said = checked("--tls-cert", pem)
    assert code == 0 and said.endswith("A broker would start and listen at SSL://127.0.0.1:0")
    chain = written(tmp_path / "tls.crt", BROKER.cert_chain_pems[0].bytes())
    key = written(tmp_path / "tls.key", ALICE.private_key_pem.bytes())
    code, said = checked("--tls-cert", chain, "--tls-key", key)
    assert code == 2 and f"ottla.tls.key.location={key}: the key does not belong to the first certificate" in said
    jks = written(tmp_path / "broker.jks", bytes.fromhex("feedfeed00000002"))
    code, said = checked("--tls-cert", jks)
    assert code == 2 and "keytool -importkeystore" in said
    code, said = checked("--http", "0", "--http-tls")
    assert code == 2 and "ottla.http.tls=true: ssl.keystore.location: " in said
