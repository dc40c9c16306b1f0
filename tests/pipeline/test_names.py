"""What the package offers under its own name."""

import importlib
from types import ModuleType

from ottla import pipeline


def test_everything_offered_is_there_however_often_it_is_asked_for() -> None:
    """Also once the module is imported that has the name of its function."""
    importlib.import_module("ottla.pipeline.session")
    for _ in range(2):
        for name in pipeline.__all__:
            assert callable(getattr(pipeline, name)), name
            assert not isinstance(getattr(pipeline, name), ModuleType)
    from ottla.pipeline import session

    assert session.__name__ == "session"
