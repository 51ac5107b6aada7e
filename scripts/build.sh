#!/usr/bin/env bash
# Compiles the program stint into Go's cache, for `go run ./cmd/stint`. The first time takes a minute or more,
# so on a terminal it shows how many packages are compiled. Go names the modules that it downloads.
set -euo pipefail
cd "$(dirname "$0")/.."

build=(go build -o /dev/null)
if [ ! -t 2 ]; then
  exec "${build[@]}" ./cmd/stint
fi
# Packages that the cache of Go does not have.
total=$(go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' ./cmd/stint | grep -c . || true)

# show counts the lines that are names of packages, and prints all others, such as errors. It writes ten
# times a second at most.
show() {
  local line now shown=0 n=0
  while IFS= read -r line; do
    if [[ ! $line =~ ^[A-Za-z0-9_./~-]+$ ]]; then
      printf '\r\e[K%s\n' "$line"
      continue
    fi
    n=$((n + 1))
    now=${EPOCHREALTIME/[.,]/}
    if [ "$n" -le "$total" ] && { [ $((now - shown)) -ge 100000 ] || [ "$n" -eq "$total" ]; }; then
      printf '\rbuilding: %d of %d packages' "$n" "$total"
      shown=$now
    fi
  done
  printf '\r\e[K'
}
"${build[@]}" -v ./cmd/stint 2>&1 >&2 | show >&2
