#!/bin/sh
# Installs the Debian packages of tests/packages.txt where this user may; else says what is missing. Never fails:
# a test whose program is missing is skipped and named at the end of the run.
set -u

list=$(dirname "$0")/packages.txt
wanted=$(sed 's/#.*//' "$list")

if ! command -v dpkg-query >/dev/null; then
    echo "Not a Debian system: install by hand what $list names; tests that need what is missing are skipped."
    exit 0
fi

missing=
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    echo "Missing Debian packages:$missing"
    echo "Tests that need them are skipped; to run them: sudo apt-get install$missing"
    exit 0
fi

echo "Installing Debian packages:$missing"
install="$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends"
log=$(mktemp)
if ! { $as_root apt-get update -q && $install $missing; } >"$log" 2>&1; then
    tail -n 5 "$log"
    echo "apt-get failed: tests that need$missing may be skipped."
fi
rm -f "$log"
exit 0
