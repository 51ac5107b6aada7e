#!/bin/sh
# After a removal: systemd forgets the units. Configuration and state stay until a purge.
set -e
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
	systemctl daemon-reload || true
fi
