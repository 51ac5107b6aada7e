#!/bin/sh
# After a removal: systemd forgets the units. Configuration and state stay until a purge, for which dpkg says
# "purge".
set -e
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
	systemctl daemon-reload || true
fi
if [ "${1:-}" = purge ]; then
	rm -rf /var/lib/private/@NAME@ /var/lib/@NAME@
fi
