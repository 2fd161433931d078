#!/bin/sh
# conf.sh DAEMON FILE - writes the package's profd.conf: all settings at their defaults, commented.
set -eu
{
	printf '# Settings of profd-daemon. What stands here commented is the default; profd.conf(5) explains it. Files in\n'
	printf '# /etc/profd/conf.d, named *.conf, are read after this one: upgrades of profd leave them alone.\n\n'
	"$1" --config /dev/null --print-config | sed 's/^\([^#]\)/#\1/'
} >"$2.part"
mv "$2.part" "$2"
