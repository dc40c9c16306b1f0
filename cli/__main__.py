"""`python -m ottla.cli` is `ottla`."""

from ottla.cli.main import main

main()
