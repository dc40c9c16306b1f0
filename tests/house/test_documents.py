"""The documents are found from docs/index.md, their links lead somewhere, and the commands in them exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ottla.cli.main import command as OTTLA
from tests.house.fences import FENCE
from tests.house.sources import ROOT, files

PAGES = sorted(path.relative_to(ROOT) for path in files(".md") if path.parent.parent != ROOT / "cli")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TARGETS = set(re.findall(r"^([a-z0-9-]+)(?:-%)?:.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def prose(page: Path) -> str:
    return FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Where a page's links lead within the project: the file, and the heading in it."""
    for target in LINK.findall(prose(page)):
        if not re.match(r"https?://", target):
            path, _, heading = target.partition("#")
            yield (ROOT / page).parent / path if path else ROOT / page, heading


def anchor(heading: str) -> str:
    """What a heading is called in an address, as GitHub and others make it."""
    text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).strip().lower().replace(" ", "-")
    return re.sub(r"[^\w-]", "", text)


def lost(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for path, heading in links(page):
        if not path.exists():
            found.append(str(path))
        elif heading and heading not in map(anchor, re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)):
            found.append(f"{path}#{heading}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    assert lost(page) == []


@pytest.mark.parametrize("start", ["docs/index.md", "README.md"])
def test_every_page_is_reached(start: str) -> None:
    """From the index at once; from the README by way of it."""
    index = {path.resolve() for path, _ in links(Path(start))}
    if start == "README.md":
        assert ROOT / "docs/index.md" in index
        return
    documents = {ROOT / page for page in PAGES if page.parts[0] == "docs"} - {ROOT / start}
    translated = {path for path in documents if path.parent.name == "zh-CN"}
    top = {ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
    missing = sorted(str(path.relative_to(ROOT)) for path in (documents - translated) | top if path not in index)
    assert missing == [], "docs/index.md has no link to these"


def commands(page: Path) -> Iterator[str]:
    """The `ottla …` commands of a page: in blocks, and in the running text between backticks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    yield from re.findall(r"^\s*(?:\$ |    )?(?:.* \| )?(ottla [^\n|]*)", text, re.MULTILINE)
    for span in re.findall(r"(?<!`)`(ottla [^`]*)`(?!`)", prose(page)):
        yield " ".join(span.split())


def unknown_in(text: str) -> list[str]:
    """The parts of a command that `ottla` does not know: a subcommand or an option."""
    words = shlex.split(re.sub(r"\s(#|2?>|<|&).*$", "", text.replace("\\|", "|")), posix=True)[1:]
    found: click.Command = OTTLA
    context = click.Context(OTTLA, info_name="ottla")
    while isinstance(found, click.Group) and words and re.fullmatch(r"[a-z][a-z|-]*", words[0]):
        names = words.pop(0).split("|")
        several = [found.get_command(context, name) for name in names]
        if None in several:
            return names
        found = several[0]  # type: ignore[assignment]
    known = {option for one in found.get_params(context) for option in (*one.opts, *one.secondary_opts)}
    return [word for word in words if re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=str)
def test_commands_exist(page: Path) -> None:
    assert {text: unknown for text in commands(page) if (unknown := unknown_in(text))} == {}


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=str)
def test_targets_exist(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    told = re.findall(r"^\$ make ((?:[a-z-]+ ?)+)|`make ([a-z-]+)", text, re.MULTILINE)
    assert {name for names in told for name in " ".join(names).split()} - {*TARGETS, "interop-"} == set()


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One thing, or two\n[a](page.md#one-thing-or-two) [b](#three) [c](none.md) [d](https://x.y/)\n")
    assert lost(page) == [f"{page}#three", str(tmp_path / "none.md")]
    assert unknown_in("ottla groups describe billing --statee # --no") == ["--statee"]
    assert unknown_in("ottla group describe") == ["group"]
    assert unknown_in("ottla log dump|verify|tail") == []


def code(page: Path) -> list[tuple[str, list[str]]]:
    """The blocks of a page without their comments, which may be translated."""
    return [
        (language, [re.sub(r"(^|\s+)# .*$", "", line) for line in text.splitlines()])
        for language, text in FENCE.findall((ROOT / page).read_text(encoding="utf-8"))
    ]


TRANSLATED = {"README.zh-CN.md": "README.md", "docs/zh-CN/tutorial.md": "docs/tutorial.md"}


def test_every_translation_is_known() -> None:
    assert {str(page) for page in PAGES if "zh-CN" in str(page)} == set(TRANSLATED)


@pytest.mark.parametrize(("page", "original"), TRANSLATED.items(), ids=str)
def test_a_translation_has_the_same_code(page: str, original: str) -> None:
    assert code(Path(page)) == code(Path(original))


@pytest.mark.parametrize(("page", "original"), TRANSLATED.items(), ids=str)
def test_a_translation_has_the_same_parts(page: str, original: str) -> None:
    """Headings of the same depth, in order, and the same external links and files, the translated ones apart."""
    depths = [re.findall(r"^(#+) ", prose(Path(one)), re.MULTILINE) for one in (page, original)]
    assert depths[0] == depths[1]
    both = {*TRANSLATED, *TRANSLATED.values()}
    led = [{str(path.resolve().relative_to(ROOT)) for path, _ in links(Path(one))} - both for one in (page, original)]
    assert led[0] == led[1]
