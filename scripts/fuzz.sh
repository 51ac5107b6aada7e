#!/usr/bin/env bash
# Fuzzes each target of the root module and of gateway, one after another.
#   fuzz.sh FUZZTIME     a number of inputs (5000x) or a time (30s)
set -euo pipefail
cd "$(dirname "$0")/.."

# targets prints folder and name of each target of a module.
targets() {
  local dir
  for dir in $(go -C "$1" list -f '{{.Dir}}' ./...); do
    grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | sed "s|^func |$dir |" || true
  done
}

root=$(targets .)
gateway=$(targets gateway)
if [ -z "$root" ] || [ -z "$gateway" ]; then
  echo "no fuzz target found" >&2
  exit 1
fi

while read -r dir target; do
  echo "== .${dir#"$PWD"} $target"
  go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$1" -fuzzminimizetime 100x "$dir" </dev/null
done <<<"$root"

# The targets of gateway send requests to a program that they start, some twenty for an input: one input comes
# there for each hundred. Instrumenting the test would compile all of Caddy again, for a path that it does not see.
time=$1
case "$time" in *x) time="$(((${time%x} + 99) / 100))x" ;; esac
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
while read -r dir target; do
  echo "== .${dir#"$PWD"} $target"
  go -C "$dir" test -vet=off -c -o "$built/test" . </dev/null
  (cd "$dir" && "$built/test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" \
    -test.fuzzminimizetime 100x -test.fuzzcachedir "$built/corpus" -test.parallel 2 </dev/null)
done <<<"$gateway"
