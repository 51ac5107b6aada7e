#!/usr/bin/env bash
# Starts the gateway with examples/gateway/first, and makes an API key in .cache/gateway/key.
set -euo pipefail
cd "$(dirname "$0")/.."

data=$PWD/.cache/gateway
export GATEWAY_DATA=${GATEWAY_DATA:-$data} GATEWAY_ADMIN=${GATEWAY_ADMIN:-127.0.0.1:2019} GATEWAY_ADDRESS=${GATEWAY_ADDRESS:-127.0.0.1:8443}
mkdir -p "$GATEWAY_DATA"
chmod 700 "$GATEWAY_DATA"
binary=${GATEWAY_BINARY:-$GATEWAY_DATA/stint-gateway}
if [[ -z ${GATEWAY_BINARY:-} ]]; then
	echo "building stint-gateway; a minute, once"
	go -C gateway build -o "$binary" ./cmd/stint-gateway
fi

(cd examples/gateway/first && exec "$binary" run) &
gateway=$!
trap 'kill "$gateway" 2>/dev/null; wait "$gateway" || true' EXIT
trap 'exit 0' INT TERM

api=http://$GATEWAY_ADMIN/stint/v1/keys
for _ in {1..300}; do
	if [[ -s $GATEWAY_DATA/key ]] || answer=$(curl --silent --fail "$api" -d '{"subject": "user=42", "prefix": "first"}'); then
		break
	fi
	kill -0 "$gateway" 2>/dev/null || exit 1
	sleep 0.1
done
if [[ ! -s $GATEWAY_DATA/key ]]; then
	(umask 077 && sed -E 's/.*"key": ?"([^"]*)".*/\1/' <<<"$answer" >"$GATEWAY_DATA/key")
fi
echo "the gateway is at https://$GATEWAY_ADDRESS, an API key of user 42 in $GATEWAY_DATA/key; Ctrl+C stops it"
wait "$gateway"
