#!/usr/bin/env bash
# Fuzzes each target of the root module, one after another.
#   fuzz.sh FUZZTIME     a number of inputs (5000x) or a time (30s)
set -euo pipefail
cd "$(dirname "$0")/.."

# -H -o: one "file:func FuzzName" a target.
targets=$(grep -rHoE --include='*_test.go' --exclude-dir='.*' --exclude-dir=bench --exclude-dir=gateway \
  --exclude-dir=testdata '^func Fuzz[A-Za-z0-9_]+' . | sort || true)
if [ -z "$targets" ]; then
  echo "no fuzz target found" >&2
  exit 1
fi
while IFS=: read -r file func; do
  echo "== $(dirname "$file") ${func#func }"
  go test -run '^$' -fuzz "^${func#func }\$" -fuzztime "$1" -fuzzminimizetime 100x "$(dirname "$file")" </dev/null
done <<<"$targets"
