"""Rules that make names of principals out of subjects: as Kafka's own mapper does, but for what is refused."""

from __future__ import annotations

import pytest

from ottla.broker.core.security.principal_rules import BadRules, principal_name, read_rules

DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT"
)
"""The example of Kafka's documentation."""
NAMES = [
    ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
    ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT", "CN=Alice,OU=Dev", "alice@dev"),
    ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT", "CN=Alice", "CN=Alice"),
    (DOCUMENTED, "CN=Kafka.Svc,OU=ServiceUsers,O=x", "kafka.svc"),
    (DOCUMENTED, "CN=Adm,OU=Admin,O=x,L=y,ST=z,C=CZ", "adm@admin"),
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT",
        "O=x,cn=Bob,C=y",
        "BOB",
    ),
    ("RULE:.*/y/", "CN=x", "yy"),
    ("RULE:CN=(.*?)/$1/", "CN=abc", "abc"),
    ("RULE:^CN=(.*?)$/$9-$1/", "CN=abc", "$9-abc"),
    ("RULE:^CN=(.*?)$/$10-$1/", "CN=abc", "abc0-abc"),
    ("RULE:^CN=(.*?)$/$0/", "CN=abc", "CN=abc"),
    ("RULE:^CN=(.*?)$/\\$1/", "CN=abc", "$1"),
    ("RULE:^CN=(.*?)$/a\\/$1/", "CN=abc", "a/abc"),
    ("RULE:^CN=(.*?)$/a\\\\b/", "CN=abc", "a\\b"),
    ("RULE:^CN=(a)?(.*?)$/$1|$2/", "CN=xyz", "|xyz"),
    ("RULE:^CN=(.*?)\\/(.*)$/$1,$2/", "CN=a/b", "a,b"),
    ("RULE:^CN=(.*?),OU=x$/$1/ , DEFAULT", "CN=a,OU=y", "CN=a,OU=y"),
    ("DEFAULT,RULE:x/y/", "x", "x"),
    (",DEFAULT", "x", "x"),
    ("RULE:x/y/,,DEFAULT", "z", "z"),
    ("RULE:^CN=(.*?)$/$1/L", "CN=ÄÖß", "äöß"),
    ("RULE:^CN=(.*?)$/$1/U", "CN=äöß", "ÄÖSS"),
    ("RULE:^CN=(.*)(.*)$/$2x$1/", "CN=ab", "xab"),
    ("RULE:(.*)/<$1>/", "ab", "<ab><>"),
    ("RULE:(.*?)/<$1>/", "ab", "<>a<>b<>"),
    ("RULE:a|ab/<$0>/", "ab", "<a>b"),
    ("RULE:(?i)cn=(.*)/$1/", "CN=q", "q"),
    ("RULE:[\\w.,=]+/ok/", "CN=a.b", "ok"),
    ("RULE:^CN=(.*?)$/$1 x/L ", "CN=Abc", "abc x"),
    ("RULE:^CN=(.*?)$/$01/", "CN=Abc", "Abc"),
    ("RULE:^CN=(.*?)$/$12/", "CN=Abc", "Abc2"),
    ("  DEFAULT  ", "CN=a", "CN=a"),
    ("RULE:^CN=(.*?)$/ $1 /", "CN=Abc", " Abc "),
]
"""Rules, a subject, and what Kafka 4.4's ``SslPrincipalMapper`` makes of it."""
NO_RULE_FITS = [
    ("", "CN=a"),
    ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/", "CN=Alice"),
    ("RULE:a.c/y/", "a\x85c"),
    ("RULE:a.c/y/", "a\u2028c"),
    ("RULE:^CN=(\\w+)$/$1/", "CN=Jörg"),
    ("RULE:^CN=(\\d+)$/$1/", "CN=٣"),
]
"""Rules and a subject for which it has none."""
REFUSED = [
    "RULE:x/y/X",
    "RULE:x/y",
    "RULE:x",
    "foo",
    "default",
    "RULE:(/y/",
    "DEFAULT DEFAULT",
    "RULE:^CN=(.*?)$/$1/LDEFAULT",
]
"""Rules that it does not take."""
REFUSED_HERE = [
    r"RULE:^CN=(.*?)$/$x/",
    r"RULE:^CN=(.*?)$/${1}/",
    r"RULE:\p{L}+/x/",
    r"RULE:\Qa.b\E/x/",
    r"RULE:[a-z&&[^b]]+/x/",
    r"RULE:[a[bc]]/x/",
    r"RULE:[\p{L}]/x/",
    r"RULE:(?=a)a/x/",
    r"RULE:(?<!a)b/x/",
    r"RULE:(?<name>a)/x/",
    r"RULE:(?>a+)/x/",
    r"RULE:(a)\1/x/",
    r"RULE:a*+/x/",
    r"RULE:a{1,9999999}/x/",
]
"""Patterns that mean something else to RE2, or nothing; replacements at which Kafka fails when somebody connects."""


@pytest.mark.parametrize(("rules", "subject", "name"), NAMES)
def test_names_are_those_of_kafka(rules: str, subject: str, name: str) -> None:
    assert principal_name(subject, read_rules(rules)) == name


@pytest.mark.parametrize(("rules", "subject"), NO_RULE_FITS)
def test_no_rule_fits(rules: str, subject: str) -> None:
    assert principal_name(subject, read_rules(rules)) is None


@pytest.mark.parametrize("rules", REFUSED + REFUSED_HERE)
def test_rules_that_are_refused(rules: str) -> None:
    with pytest.raises(BadRules, match=r"."):
        read_rules(rules)


def test_a_pattern_is_shown_as_it_was_written() -> None:
    with pytest.raises(BadRules) as caught:
        read_rules("RULE:^CN=(.*?,.*$/$1/")
    assert str(caught.value) == "'^CN=(.*?,.*$' is no pattern: missing ): ^CN=(.*?,.*$"


def test_a_number_is_text_where_there_is_no_group() -> None:
    """Kafka closes the connection of everybody whom such a rule fits."""
    assert principal_name("CN=abc", read_rules("RULE:^CN=.*$/$1/")) == "$1"


def test_a_dot_in_a_class_is_a_dot() -> None:
    rules = read_rules(r"RULE:^CN=([.\]x]+)$/$1/")
    assert principal_name("CN=x.]", rules) == "x.]"
    assert principal_name("CN=a", rules) is None


def test_a_long_subject_is_matched_at_once() -> None:
    """With an engine that tries every way this would not end while anybody waits."""
    subject = "CN=a,OU=b,O=c,L=d,ST=e," * 170
    assert principal_name(subject, read_rules(DOCUMENTED)) == "a"
