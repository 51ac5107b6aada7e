#!/usr/bin/env bash
# Brings the examples and the test scripts of envoyproxy/ratelimit, from the zip of its Go
# module, to .cache/envoy-ratelimit, and the exporter of statistics that they use to .cache/bin:
# examples/original_linux_test.go runs them.
set -euo pipefail
cd "$(dirname "$0")/.."

module=github.com/envoyproxy/ratelimit
# The first that the module proxy serves: of 6 July 2026, and an earlier one, which lacks the scripts of quotas.
versions="v1.4.1-0.20260706065234-f2fb15770f7f v1.4.1-0.20260122083618-3fb702589d36"
exporter=github.com/prometheus/statsd_exporter@v0.28.0

into=.cache/envoy-ratelimit
pins="$versions $exporter"
if [ "$(cat "$into/.pins" 2>/dev/null)" = "$pins" ] && [ -x .cache/bin/statsd_exporter ]; then
  exit 0
fi

dir=""
for version in $versions; do
  # Outside of our own module; a version is checked against the sums that all others see.
  if found=$(cd / && go mod download -json "$module@$version" 2>/dev/null); then
    dir=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$found")
    break
  fi
done
if [ -z "$dir" ]; then
  echo "no version of $module is to be had: $versions" >&2
  exit 1
fi
echo "envoyproxy/ratelimit: examples and scripts of $version into $into"
rm -rf "$into"
mkdir -p "$into" .cache/bin
cp -r "$dir/examples" "$dir/integration-test" "$into"
chmod -R u+w "$into"
chmod +x "$into"/integration-test/scripts/*.sh # a zip of a module keeps no modes
GOBIN=$PWD/.cache/bin go install "$exporter"
echo "$pins" >"$into/.pins"
echo "$version" >"$into/version"
