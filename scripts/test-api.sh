#!/usr/bin/env bash
# Checks docs/openapi.yaml against the running service with schemathesis:
# starts the service on free ports, then tests the traffic and the admin paths.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

spec=docs/openapi.yaml
schemathesis=.cache/venv/bin/schemathesis
# What the traffic listener serves; all else is on the admin listener. Of /v1/auth every
# method asks the same, which no OpenAPI document can say.
traffic='^/(v1/(check|settle|me/usage)|json|healthcheck|demo)$'
auth='^/v1/auth$'

scripts/install-test-deps.sh
work=$(mktemp -d)
pid=""
cleanup() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

go build -o "$work/stint" ./cmd/stint

read -r http admin < <(python3 - <<'EOF'
import socket
held = [socket.socket() for _ in range(2)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))
EOF
)

# The configuration of the examples, and a receiver of webhooks, which only a config file can have.
sed "s#\(- \)\(rules\|catalog\)/#\1$root/examples/\2/#" examples/stint.yaml >"$work/stint.yaml"
printf 'webhooks:\n  - {name: shop, type: lines, file: events.jsonl}\n' >>"$work/stint.yaml"

"$work/stint" serve --config "$work/stint.yaml" --http "127.0.0.1:$http" --admin "127.0.0.1:$admin" \
  --grpc "" --resp "" --trusted-proxies 127.0.0.1 --catalog "" --catalog-db "$work/rules.db" \
  --records "$work/records.db" >"$work/log" 2>&1 &
pid=$!

fail() {
  echo "$1; the log of the service:" >&2
  tail -n 50 "$work/log" >&2
  exit 1
}

for _ in $(seq 600); do
  curl -sf -o /dev/null "http://127.0.0.1:$admin/healthz" && ready=1 && break
  kill -0 "$pid" 2>/dev/null || fail "the service stopped"
  sleep 0.1
done
[ -n "${ready:-}" ] || fail "/healthz did not answer within a minute"

# Data that violates the schema may also be too large, or be about what is not there.
cat >"$work/schemathesis.toml" <<'EOF'
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422, 428, 429, "5xx"]
EOF

# run LISTENER PORT OPTION...; the seed is fixed so that a failure can be repeated, and a slow
# machine is no fault.
# It runs in the work folder: the example database of hypothesis stays out of the tree.
run() {
  echo "== $1: ${*:3}"
  (cd "$work" && SCHEMATHESIS_HOOKS="$root/scripts/schemathesis_hooks.py" PYTHONDONTWRITEBYTECODE=1 "$root/$schemathesis" run "$root/$spec" --url "http://127.0.0.1:$2" --seed 1 \
    --max-examples "${EXAMPLES:-50}" --suppress-health-check too_slow --output-sanitize false --no-color "${@:3}" | cut -c 1-2000) ||
    fail "schemathesis found a fault"
}
# both CHECKS LISTENER PORT OPTION...: the examples of the document must be accepted. What is
# made up from its schemas need not be: no schema says that min_interval is at most per.
# CHECKS are further ones that are left out.
both() {
  run "${@:2}" --phases examples
  run "${@:2}" --phases coverage,fuzzing,stateful --exclude-checks "positive_data_acceptance$1"
}
both "" traffic "$http" --include-path-regex "$traffic"
both ",unsupported_method" auth "$http" --include-path-regex "$auth"
both "" admin "$admin" --exclude-path-regex "$traffic|$auth"
kill -0 "$pid" 2>/dev/null || fail "the service died under test"
