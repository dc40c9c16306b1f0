#!/bin/sh
# format --standalone -t ID -c CONFIG [--add-scram USER]: whoever starts the broker adds the user.
config=$6
shift 6
printf '%s\n' "$@" > "$config.users"
