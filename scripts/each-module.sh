#!/usr/bin/env bash
# Runs a command in the folder of each Go module of this repository.
#   each-module.sh [--but-root | --but-release | --all] COMMAND...
# Without an option: all modules with code. --but-release leaves out those that nobody builds on other
# systems: tools/release and tools/site, bench, and deploy, which has tests of the chart alone. --all adds tools
# itself, which has no code.
set -euo pipefail
cd "$(dirname "$0")/.."

skip="./tools/"
case "$1" in
  --but-root) skip="./ ./tools/"; shift ;;
  --but-release) skip="./tools/ ./tools/release/ ./tools/site/ ./deploy/ ./bench/"; shift ;;
  --all) skip=""; shift ;;
esac

find . -name go.mod -not -path './.*/*' -not -path '*/testdata/*' -printf '%h/\n' | sort |
while read -r dir; do
  case " $skip " in *" $dir "*) continue ;; esac
  echo "== ${dir%/}: ${*##"$PWD"/}"
  (cd "$dir" && "$@" </dev/null)
done
