"""How commands connect: options, the environment, files of client properties, profiles; and which of them wins."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import click
import pytest
import trustme
from click.testing import CliRunner, Result

from ottla.broker.setting_sources import NOT_SETTINGS
from ottla.cli.common import bootstrap_option
from ottla.cli.connecting import client_options
from ottla.cli.main import command as ottla
from ottla.clients.errors import OptionError
from ottla.clients.options import ClientOptions
from ottla.clients.properties import FileTokens
from ottla.clients.security import security_of
from tests.cli.commands import HERE

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def run(tmp_path: Path, *arguments: str, config: str = "", expect: int = 0, **environment: str) -> tuple[Any, Result]:
    """The options of a client that a command would have, and what was printed."""
    found: list[dict[str, Any]] = []

    @click.command()
    @bootstrap_option
    def command(bootstrap: str) -> None:
        found.append(client_options(bootstrap))

    if config:
        file = tmp_path / "client.properties"
        file.write_text(config)
        arguments = (*arguments, "--command-config", str(file))
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")} | environment
    result = CliRunner(env=environment).invoke(command, arguments)
    assert result.exit_code == expect, result.output
    return found[0] if found else None, result


def test_nothing_is_said_of_it_where_nothing_is_needed(tmp_path: Path) -> None:
    assert run(tmp_path)[0] == {"bootstrap_servers": "localhost:9092"}


USER = {
    "bootstrap_servers": "localhost:9092",
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "alice-secret",
}


def test_by_options(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("alice-secret\n")
    protocol = "--security-protocol", "sasl_plaintext", "--sasl-mechanism", "SCRAM-SHA-512"
    assert run(tmp_path, *protocol, "--username", "alice", "--password-file", str(file))[0] == USER


def test_by_the_environment(tmp_path: Path) -> None:
    environment = {
        "OTTLA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "OTTLA_SASL_MECHANISM": "SCRAM-SHA-512",
        "OTTLA_USERNAME": "alice",
        "OTTLA_PASSWORD": "alice-secret",
    }
    assert run(tmp_path, **environment)[0] == USER


def test_every_variable_is_known_as_one_that_is_no_setting() -> None:
    context = click.Context(ottla)
    listing = ottla.get_command(context, "topics").get_command(context, "list")  # type: ignore[union-attr]
    variables = {one.envvar for one in listing.params if one.envvar}
    assert len(variables) > 8
    assert variables | {"OTTLA_PASSWORD"} <= NOT_SETTINGS


@pytest.mark.parametrize(
    "lines",
    [
        f'sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={SCRAM} \\\n  username="alice" password="alice-secret";',
        "sasl.mechanisms=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=alice-secret\nacks=all",
        "sasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=${env:A_SECRET}\nsasl.login.class=x",
    ],
)
def test_by_a_file_of_properties(tmp_path: Path, lines: str) -> None:
    config = f"security.protocol=SASL_PLAINTEXT\n{lines}"
    assert run(tmp_path, config=config, A_SECRET="alice-secret")[0] == USER


def test_a_token(tmp_path: Path) -> None:
    file = tmp_path / "to ken"
    file.write_text("a.b.c\n")
    config = (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={BEARER} extension_pool="p";\nsasl.oauthbearer.token.endpoint.url={file.as_uri()}'
    )
    provider = run(tmp_path, config=config)[0]["sasl_oauth_token_provider"]
    assert isinstance(provider, FileTokens)
    assert (provider.path, provider.extensions()) == (str(file), {"pool": "p"})
    flags = "--security-protocol", "SASL_PLAINTEXT", "--sasl-mechanism", "OAUTHBEARER", "--token-file", str(file)
    assert run(tmp_path, *flags)[0]["sasl_oauth_token_provider"].path == str(file)


def test_profiles(tmp_path: Path) -> None:
    """The default one if there is no other; a file wins over it, the environment over a file, an option over all."""
    profiles = tmp_path / "config" / "ottla"
    profiles.mkdir(parents=True)
    (profiles / "default.properties").write_text("bootstrap.servers=default:1")
    (profiles / "prod.properties").write_text(
        "bootstrap.servers=prod:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.username=of-profile\nsasl.password=x"
    )
    assert run(tmp_path)[0] == {"bootstrap_servers": "default:1"}
    assert run(tmp_path, "-b", "given:1")[0] == {"bootstrap_servers": "given:1"}
    assert run(tmp_path, OTTLA_BOOTSTRAP_SERVERS="env:1")[0] == {"bootstrap_servers": "env:1"}
    prod = run(tmp_path, "--profile", "prod")[0]
    assert (prod["bootstrap_servers"], prod["sasl_plain_username"]) == ("prod:1", "of-profile")
    config, environment = "sasl.username=of-file", {"OTTLA_PROFILE": "prod", "OTTLA_USERNAME": "of-environment"}
    assert run(tmp_path, "--profile", "prod", config=config)[0]["sasl_plain_username"] == "of-file"
    assert run(tmp_path, config=config, **environment)[0]["sasl_plain_username"] == "of-environment"
    options = "--username", "of-option"
    assert run(tmp_path, *options, config=config, **environment)[0]["sasl_plain_username"] == "of-option"
    said = run(tmp_path, "--profile", "test", expect=1)[1].stderr
    assert "There is no profile 'test'" in said and "default, prod" in said


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files of an authority, and of a client's certificate and key."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    client = authority.issue_cert("alice@example.org", key_type=trustme.KeyType.ECDSA)
    files = {name: str(folder / f"{name}.pem") for name in ("ca", "chain", "key", "both")}
    authority.cert_pem.write_to_path(files["ca"])
    client.cert_chain_pems[0].write_to_path(files["chain"])
    client.private_key_pem.write_to_path(files["key"])
    client.private_key_and_cert_chain_pem.write_to_path(files["both"])
    return files


def test_tls(tmp_path: Path, certificates: dict[str, str]) -> None:
    by_option = run(
        tmp_path,
        *("--security-protocol", "SSL", "--cafile", certificates["ca"]),
        *("--certfile", certificates["chain"], "--keyfile", certificates["key"]),
    )[0]
    kafkas = (
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={certificates['ca']}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={certificates['both']}"
    )
    librdkafkas = (
        f"security.protocol=ssl\nssl.ca.location={certificates['ca']}\nssl.key.location={certificates['key']}\n"
        f"ssl.certificate.location={certificates['chain']}\nssl.endpoint.identification.algorithm=none"
    )
    by_file = run(tmp_path, config=kafkas)[0], run(tmp_path, config=librdkafkas)[0]
    for options, checks_name in zip((by_option, *by_file), (True, True, False), strict=True):
        context = security_of(ClientOptions(**options)).tls
        assert context is not None and len(context.get_ca_certs()) == 1
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, checks_name)


SASL = "security.protocol=SASL_SSL\n"


@pytest.mark.parametrize(
    "config, words",
    [
        ("security.protocol=TLS", "client.properties: security.protocol='TLS'"),
        (
            "sasl.username=alice\nsasl.password=my-secret",
            "client.properties: sasl.username='alice': it means nothing, as --security-protocol is 'PLAINTEXT'; say "
            "SASL_SSL or SASL_PLAINTEXT there, or leave this out.",
        ),
        (
            "security.protocol=SASL_PLAINTEXT\nssl.ca.location=ca.pem\nsasl.username=a\nsasl.password=my-secret",
            "client.properties: ssl.ca.location='ca.pem': it means nothing, as security.protocol is 'SASL_PLAINTEXT'; "
            "say SASL_SSL there, or leave this out.",
        ),
        ("security.protcol=SSL", "possible here; did you mean security.protocol?"),
        (f"{SASL}sasl.username=alice", "--password-file: it is needed, as security.protocol is 'SASL_SSL'"),
        (f"{SASL}sasl.jaas.config={PLAIN} username=my/secret;", "sasl.jaas.config: it cannot be read"),
        (f'{SASL}sasl.jaas.config=com.sun.Krb5LoginModule required x="my-secret";', "Krb5LoginModule is not possible"),
        (f'{SASL}sasl.jaas.config={SCRAM} tokenauth="true" password="my-secret";', "tokenauth"),
        (f'{SASL}sasl.jaas.config={BEARER} clientSecret="my-secret";', "clientSecret is not possible"),
        (f"{SASL}sasl.jaas.config={BEARER};", "sasl.oauthbearer.token.endpoint.url"),
        (f"{SASL}sasl.oauthbearer.token.endpoint.url=https://issuer/token", "the file: URL"),
        (
            f"{SASL}sasl.username=a\nsasl.jaas.config={PLAIN} username=b;",
            "--password-file: it is needed, as security.protocol is 'SASL_SSL'",
        ),
        ("security.protocol=SSL\nssl.truststore.location=/x.jks", "ssl.truststore.type=PEM"),
        ("security.protocol=SSL\nssl.keystore.location=/x.p12\nssl.keystore.type=PKCS12", "ssl.keystore.type=PEM"),
        ("security.protocol=SSL\nssl.keystore.password=my-secret", "ssl.keystore.password: it is about security"),
        ("security.protocol=SSL\nssl.endpoint.identification.algorithm=ldap", "'ldap': allowed is https"),
        (
            "security.protocol=SSL\nssl.ca.location=/a\nssl.truststore.location=/b\nssl.truststore.type=PEM",
            "another line",
        ),
        ("sasl.password=${env:NO_SUCH_VARIABLE}", "the environment has no NO_SUCH_VARIABLE"),
    ],
)
def test_what_cannot_be_is_named_and_not_shown(tmp_path: Path, config: str, words: str) -> None:
    said = " ".join(run(tmp_path, config=config, expect=2)[1].stderr.split())
    assert words in said
    assert "my-secret" not in said


def test_what_an_option_says_is_named_as_one(tmp_path: Path) -> None:
    said = run(tmp_path, "--username", "bob", config="sasl.username=alice\nsasl.password=x", expect=2)[1].stderr
    assert "Error: --username='bob': it means nothing" in said


def test_a_key_of_another_certificate(certificates: dict[str, str], tmp_path: Path) -> None:
    key = str(tmp_path / "other.key")
    trustme.CA().private_key_pem.write_to_path(key)
    options = ClientOptions(security_protocol="SSL", ssl_certfile=certificates["chain"], ssl_keyfile=key)
    with pytest.raises(OptionError, match="this key is of another certificate"):
        security_of(options)


def test_a_file_of_a_password_has_one(tmp_path: Path) -> None:
    flags = "--security-protocol", "SASL_PLAINTEXT", "--username", "a", "--password-file"
    assert "No such file" in run(tmp_path, *flags, str(tmp_path / "none"), expect=2)[1].stderr
    (tmp_path / "empty").write_text("\n")
    assert "it is empty" in run(tmp_path, *flags, str(tmp_path / "empty"), expect=2)[1].stderr
    flags = *flags[:2], "--sasl-mechanism", "OAUTHBEARER", "--token-file"
    assert "none: No such file" in run(tmp_path, *flags, str(tmp_path / "none"), expect=2)[1].stderr
    assert "write the token into it" in run(tmp_path, *flags, str(tmp_path / "empty"), expect=2)[1].stderr


def test_a_password_is_no_argument() -> None:
    said = " ".join(HERE.run("topics", "list", "--password", "my-secret", expect=2).stderr.split())
    assert "say --password-file FILE" in said and "my-secret" not in said
