#!/bin/sh
# kafka.Kafka CONFIG
set -f
exec "$OTTLA_PYTHON" -m ottla.cli serve --config "$2" $(cat "$2.users")
