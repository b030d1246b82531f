#!/bin/sh
# Prints the home of a Java of version 17 or newer, for `JAVA_HOME=$(scripts/java.sh)`.
#
# Taken in this order: JAVA_HOME, the java on PATH, and else, where apt and root are there, Debian's
# openjdk-17-jre-headless, which is installed. All words but the answer go to stderr.
set -eu

oldest=17
package=openjdk-17-jre-headless

# Prints the home of the java binary $1 if it is new enough; fails otherwise.
home_of() {
    settings=$("$1" -XshowSettings:properties -version 2>&1 </dev/null) || return 1
    version=$(printf '%s\n' "$settings" | sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge "$oldest" ] || return 1
    printf '%s\n' "$settings" | sed -n 's/^ *java\.home = //p'
}

on_path() {
    java=$(command -v java) && home_of "$java"
}

if [ -n "${JAVA_HOME:-}" ] && home_of "$JAVA_HOME/bin/java"; then exit 0; fi
if on_path; then exit 0; fi

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "No Java $oldest or newer found: installing $package" >&2
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq </dev/null >&2 &&
        apt-get install -qq -y --no-install-recommends "$package" </dev/null >&2; then
        # An older java may come first on PATH: then the one just installed is asked for by its place.
        if on_path; then exit 0; fi
        for java in /usr/lib/jvm/java-$oldest-*/bin/java; do
            if home_of "$java"; then exit 0; fi
        done
    fi
fi

echo "Spark needs Java $oldest or newer: install it (Debian, Ubuntu: apt install $package;" \
    "elsewhere: https://adoptium.net) and put it on PATH or name it in JAVA_HOME" >&2
exit 1
