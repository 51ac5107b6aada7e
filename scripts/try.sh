#!/usr/bin/env bash
# Starts the service with the example configuration, without Go where a release is at hand.
#   try.sh [ARCHIVE]
# It runs the program of the archive (stint_VERSION_SYSTEM_ARCHITECTURE.tar.gz), else that of the newest
# one in dist, else the stint that is installed, else it builds one.
set -euo pipefail
archive=${1:-}
case $archive in "" | /*) ;; *) archive=$PWD/$archive ;; esac
cd "$(dirname "$0")/.."

system=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) architecture=$(uname -m) ;;
esac
if [ -z "$archive" ]; then
  for file in dist/stint_v*_"$system"_"$architecture".tar.gz; do
    if [ -f "$file" ] && { [ -z "$archive" ] || [ "$file" -nt "$archive" ]; }; then
      archive=$file
    fi
  done
fi
if [ -n "$archive" ] && [ ! -f "$archive" ]; then
  echo "try: $archive: no such file" >&2
  echo "hint: name the archive of a release for this machine, stint_VERSION_${system}_$architecture.tar.gz" >&2
  exit 1
elif [ -n "$archive" ]; then
  rm -rf .cache/try
  mkdir -p .cache/try
  tar -xzf "$archive" -C .cache/try --strip-components=1
  program=.cache/try/stint
elif program=$(command -v stint); then
  :
elif command -v go >/dev/null; then
  exec make -s run
else
  echo "try: there is no release in dist, no stint in PATH and no Go to build one" >&2
  echo "hint: make try RELEASE=stint_v0.1.0_${system}_$architecture.tar.gz" >&2
  exit 1
fi
echo "try: running ${archive:+$archive, }$program" >&2
exec "$program" serve --config examples/stint.yaml
