"""``sasl.jaas.config``: what Java's tokenizer makes of it, and what is refused without showing a value."""

from __future__ import annotations

import pytest

from ottla.protocol.sasl.jaas import BadJaas, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    "text, options",
    [
        (f"{PLAIN} required;", {}),
        (
            f'{PLAIN} required username="alice" password="alice-secret";',
            {"username": "alice", "password": "alice-secret"},
        ),
        (f"{PLAIN} REQUIRED username='alice'  password = word-1_$ ;", {"username": "alice", "password": "word-1_$"}),
        (
            f'{PLAIN} required user_al="a\\"b\\\\c\\n;=" // a comment\n user_b="";',
            {"user_al": 'a"b\\c\n;=', "user_b": ""},
        ),
        (f'{PLAIN} /* "x" */ required\n\tuser_a="1" /* user_b="2" */;\n', {"user_a": "1"}),
        (f'{PLAIN} required "user_a b"="it\'s // no comment";', {"user_a b": "it's // no comment"}),
    ],
)
def test_options(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == ("PlainLoginModule", options)


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "class name"),
        (PLAIN, "'required' behind"),
        (f"{PLAIN};", "'required' behind"),
        (f'{PLAIN} username="alice";', "'required' has to stand"),
        (f'{PLAIN} required username="alice"', "semicolon"),
        (f'{PLAIN} required password="my-secret', "character"),
        (f"{PLAIN} required password=my/secret;", "character"),
        (f"{PLAIN} required password;", "option"),
        (f"{PLAIN} required password=;", "value of 'password'"),
        (f'{PLAIN} required ="my-secret";', "option"),
        (f'{PLAIN} required password="my-secret"; {PLAIN} required;', "one login module"),
    ],
)
def test_what_cannot_be_read_is_not_shown(text: str, words: str) -> None:
    with pytest.raises(BadJaas, match=words) as raised:
        parse_jaas(text)
    assert "my-secret" not in str(raised.value)
    assert str(raised.value).startswith("sasl.jaas.config: ")


def test_nothing_shows_a_password() -> None:
    assert "alice-secret" not in repr(parse_jaas(f'{PLAIN} required username="alice" password="alice-secret";'))
