"""The rooms are top-level folders; installed, they are ottla.broker, ottla.protocol, ottla.clients, …

Bare names such as ``broker`` would collide with other distributions once installed, so every room is mapped below the
namespace package ``ottla`` (docs/architecture.md, "Packaging").
"""

from setuptools import find_packages, setup

ROOMS = ("broker", "protocol", "clients", "observe", "workbench", "testing", "cli", "pipeline")

setup(
    packages=[
        *(f"ottla.{name}" for room in ROOMS for name in (room, *(f"{room}.{part}" for part in find_packages(room)))),
        "ottla.observe.console",  # files of a page, and no module
    ],
    package_data={
        "": ["docs/*.md"],  # of ottla.cli, where docs is a link, for `ottla help`
        **{f"ottla.{room}": ["py.typed"] for room in ROOMS},
        "ottla.observe": ["py.typed", "console/*"],
        "ottla.workbench.failures": ["*.yaml"],
        "ottla.pipeline": ["py.typed", "gold/*.sql", "report/*.css", "report/*.html", "*.properties"],
    },
    exclude_package_data={"": ["ruff.toml"]},
    package_dir={f"ottla.{room}": room for room in ROOMS},
)
