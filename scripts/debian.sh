# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# For the install-*.sh of this folder, which read it: packages of Debian.

# In the name of the script.
say()
{
	echo "$(basename "$0" .sh): $*"
}

# Which of the packages named are not installed, a blank before each.
missing()
{
	for package; do
		status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=
		[ "$status" = installed ] || printf ' %s' "$package"
	done
}

apt()
{
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@"
}

# install_debian "PACKAGE..." [NOTE]: those that are missing. What apt says is shown if it fails.
install_debian()
{
	# Word splitting is meant, here and below: these are package names.
	# shellcheck disable=SC2086
	todo=$(missing $1)
	[ -n "$todo" ] || return 0
	say "installing$todo${2:+ ($2)}"
	if [ "$(id -u)" != 0 ]; then
		say "run as root: apt-get install --no-install-recommends$todo" >&2
		return 1
	fi
	# A fresh machine has no package lists, and one that stood for a while has old ones.
	# shellcheck disable=SC2086
	told=$(apt install --no-install-recommends $todo 2>&1) ||
		told=$({ apt update && apt install --no-install-recommends $todo; } 2>&1) ||
		{ echo "$told" >&2; return 1; }
}
