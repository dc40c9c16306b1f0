"""The page: one file that holds all it shows, opens without a network and asks nobody."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime
from pathlib import Path
from string import Template

from ottla.pipeline.report import head, heat, lists, timelines
from ottla.pipeline.report.lists import Where
from ottla.pipeline.report.markup import Html, join, name, tag, text
from ottla.pipeline.report.members import Picture
from ottla.pipeline.report.scene import Group, Scene

HERE = Path(__file__).parent
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def page(scene: Scene, pictures: dict[str, Picture | None], made_at: datetime) -> str:
    """The whole file.

    Args:
        pictures: the groups that get a part of their own, and their swim lanes if there are any.
        made_at: when the report was made, in UTC.
    """
    order = {group.name: index for index, group in enumerate(scene.groups)}
    rows = {group.name: f"r{order[group.name]}" for group in heat.listed(scene)[0]}
    cards = {group: f"g{order[group]}" for group in pictures}
    where = rows | cards
    parts = _parts(scene, pictures, rows, cards, where)
    template, style = (HERE / "report.html").read_text(), (HERE / "report.css").read_text()
    return Template(template).substitute(
        title=text(f"{scene.cluster} · Ottla report"),
        csp=_policy(template, style),
        style=style,
        cluster=name(scene.cluster, class_="whole"),
        only=join(" · group ", name(scene.only, class_="whole")) if scene.only is not None else "",
        verdict=head.verdict(scene, where),
        facts=head.facts(scene),
        nav=join(tag("a", label, href=f"#{anchor}") for anchor, label, _ in parts),
        parts=join(_section(anchor, label, body) for anchor, label, body in parts),
        made=f"Made {made_at:%d %b %Y %H:%M} UTC from {text(scene.lake)}",
        axis_start=int(scene.span.start.timestamp()),
        bucket_s=int(scene.span.bucket.total_seconds()),
    )


def _policy(template: str, style: str) -> str:
    """Its own script and style count, and nothing is fetched: a name that slipped through could do nothing."""
    found = SCRIPT.search(template)
    assert found is not None
    allowed = f"style-src {_hash(style)}; script-src {_hash(found[1])}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _parts(
    scene: Scene, pictures: dict[str, Picture | None], rows: Where, cards: Where, where: Where
) -> list[tuple[str, str, Html]]:
    """Anchor, title and content of each section, in order."""
    own = [group for group in scene.groups if group.name in pictures]
    parts = [
        ("findings", "Findings", lists.findings(scene, where)),
        ("lag", "Lag", heat.section(scene, rows, cards)),
        ("breaches", "Breaches", lists.breaches(scene, where)),
        ("forecast", "Forecast", lists.forecasts(scene, where)),
        ("partitions", "Partitions", lists.partitions(scene, where)),
    ]
    if own:
        drawn = [timelines.card(one, pictures[one.name], scene.not_ok, scene.span, cards[one.name]) for one in own]
        parts.append(("groups", "Groups in trouble" if scene.only is None else "The group", join(drawn)))
    if others := _rebalanced(scene, pictures):
        parts.append(("rebalances", "Other rebalances", lists.rebalances(others, where)))
    parts += [
        ("hot", "Hot partitions", lists.hot(scene, where)),
        ("notes", "What cannot be said", head.notes(scene)),
    ]
    return parts


def _rebalanced(scene: Scene, pictures: dict[str, Picture | None]) -> list[Group]:
    found = [group for group in scene.groups if group.changes and group.name not in pictures]
    return sorted(found, key=lambda one: (-(one.paused_ms or 0), -one.changes, one.name))


def _section(anchor: str, label: str, body: Html) -> Html:
    return tag("section", tag("h2", label), body, id=anchor, class_="part", aria_label=label)
