"""What the container files say twice, they say alike."""

from __future__ import annotations

import importlib
import json
import re

from tests.house.sources import ROOT


def test_the_compose_file_checks_health_as_the_image_does() -> None:
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    (asked,) = re.findall(r"HEALTHCHECK [^\[]*CMD (\[.*\])", image)
    (told,) = (one for one in re.findall(r"test: (\[.*\])", compose) if json.loads(one)[1] == "ottla")
    assert json.loads(told) == ["CMD", *json.loads(asked)]
    assert json.loads(asked)[0] == "ottla"


def test_both_engines_know_the_options_of_the_health_check() -> None:
    """Podman before 5 ends a build at an option that it does not know, such as --start-interval."""
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (options,) = re.findall(r"HEALTHCHECK ([^\[]*)CMD", image)
    assert set(re.findall(r"--([a-z-]+)=", options)) <= {"interval", "timeout", "start-period", "retries"}


def test_the_image_has_bytecode() -> None:
    """What a start imports is compiled when the image is built: the one who runs there may not write it."""
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "PYTHONDONTWRITEBYTECODE" not in image
    (imported,) = re.findall(r'^RUN \S+python -c "import ([^"]*)"$', image.replace("\\\n", ""), re.MULTILINE)
    modules = re.split(r",\s*", imported)
    assert {"uvloop", "ottla.broker.app", "ottla.cli.serve", "ottla.observe.observatory"} <= set(modules)
    for name in modules:
        importlib.import_module(name)
    assert image.index("RUN /opt") < image.index("USER ")
