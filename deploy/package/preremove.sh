#!/bin/sh
# Before a removal: the service stops. An upgrade leaves it running; dpkg then says "upgrade", rpm 1.
set -e
case "${1:-}" in upgrade | 1) exit 0 ;; esac
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
	systemctl --no-reload disable --now @NAME@.service || true
	if [ -e /usr/lib/systemd/system/@NAME@.socket ]; then
		systemctl --no-reload disable --now @NAME@.socket || true
	fi
fi
