#!/bin/sh
# --list --bootstrap-server ADDRESS --command-config CONFIG: a line for each topic.
"$OTTLA_PYTHON" -m ottla.cli topics list -b "$3" --command-config "$5" --format json |
  "$OTTLA_PYTHON" -c 'import json, sys; print(*(one["topic"] for one in json.load(sys.stdin)), sep="\n")'
