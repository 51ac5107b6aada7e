#!/bin/sh
# Before a removal: the service stops, its socket first, which would start it again. An upgrade leaves it
# running; dpkg then says "upgrade", rpm 1.
set -e
case "${1:-}" in upgrade | 1) exit 0 ;; esac
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
	for unit in @NAME@.socket @NAME@.service; do
		if [ -e "/usr/lib/systemd/system/$unit" ]; then
			systemctl --no-reload disable --now "$unit" || true
		fi
	done
fi
