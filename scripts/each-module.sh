#!/usr/bin/env bash
# Runs a command in the folder of each Go module of this repository.
#   each-module.sh [--but-root | --all] COMMAND...
# Without an option: all modules with code. --all adds tools, which has none.
set -euo pipefail
cd "$(dirname "$0")/.."

skip="./tools/"
case "$1" in
  --but-root) skip="./ ./tools/"; shift ;;
  --all) skip=""; shift ;;
esac

find . -name go.mod -not -path './.*/*' -not -path '*/testdata/*' -printf '%h/\n' | sort |
while read -r dir; do
  case " $skip " in *" $dir "*) continue ;; esac
  echo "== ${dir%/}: ${*##"$PWD"/}"
  (cd "$dir" && "$@" </dev/null)
done
