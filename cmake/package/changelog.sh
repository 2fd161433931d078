#!/bin/sh
# changelog.sh CHANGELOG.md VERSION MAINTAINER FOLDER - makes FOLDER/changelog.gz, the file as it is, and
# FOLDER/changelog.Debian.gz, in Debian's form. The time is SOURCE_DATE_EPOCH's where that is set.
set -eu
[ $# = 4 ]
time=$(LC_ALL=C date -u -R -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")
gzip -9nc "$1" >"$4/changelog.gz"
awk -v version="$2" -v maintainer="$3" -v time="$time" '
	# One entry of the list, in lines of Debian'"'"'s length.
	function flush(    words, n, i, line) {
		if (text == "") return
		n = split(text, words, " ")
		line = "  *"
		for (i = 1; i <= n; i++) {
			if (length(line) + 1 + length(words[i]) > 79) {
				print line
				line = "   "
			}
			line = line " " words[i]
		}
		print line
		text = ""
	}
	function finish() {
		flush()
		if (entry) printf "\n -- %s  %s\n\n", maintainer, time
	}
	/^## / {
		finish()
		entry++
		# The newest entry is this package; older ones were the first of their version.
		printf "profd (%s) unstable; urgency=medium\n\n", entry == 1 ? version : $2 "-1"
		next
	}
	!entry || /^# / { next }
	/^$/ { flush(); next }
	/^[-*] / { flush(); sub(/^[-*] /, "") }
	{ text = text " " $0 }
	END { finish() }' "$1" | gzip -9nc >"$4/changelog.Debian.gz"
