"""All tests, or those that are named."""

import batch  # noqa: F401 - registers its tests
import harness
import restart  # noqa: F401
import streams  # noqa: F401

if __name__ == "__main__":
    harness.run_all("ottla-interop")
