#!/usr/bin/env bash
# Fuzzes each target of the root module, one after another.
#   fuzz.sh FUZZTIME     a number of inputs (5000x) or a time (30s)
set -euo pipefail
cd "$(dirname "$0")/.."

found=0
for dir in $(go list -f '{{.Dir}}' ./...); do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | cut -d' ' -f2); do
    echo "== .${dir#"$PWD"} $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" -fuzzminimizetime 100x "$dir"
    found=$((found + 1))
  done
done
if [ "$found" = 0 ]; then
  echo "no fuzz target found" >&2
  exit 1
fi
