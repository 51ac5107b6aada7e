#!/bin/sh
# After an installation or an upgrade: systemd reads the units, and a running service uses the new
# program. Nothing is started that did not run.
set -e
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
	systemctl daemon-reload || true
	systemctl try-restart @NAME@.service || true
fi
