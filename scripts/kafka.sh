#!/bin/sh
# Prints the folder with the jars of Apache Kafka, which `java -cp 'FOLDER/*' kafka.Kafka CONFIGURATION` runs.
#
# Maven fetches them once, into build/kafka, by the coordinates in scripts/kafka/pom.xml, and they have to have the
# digests in scripts/kafka/SHA256SUMS. Fails where there is no Maven or it reaches no registry. All words but the answer
# go to stderr.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$here")/build
jars=$build/kafka

if [ ! -d "$jars" ]; then
    if ! command -v mvn >/dev/null; then
        echo "Apache Kafka is fetched by Maven, and there is no mvn (Debian, Ubuntu: apt install maven)" >&2
        exit 1
    fi
    echo "Fetching Apache Kafka into $jars" >&2
    mkdir -p "$build"
    fetched=$(mktemp -d "$build/kafka-XXXXXX")
    trap 'rm -rf "$fetched"' EXIT
    mvn --batch-mode --quiet --strict-checksums --file "$here/kafka/pom.xml" \
        dependency:copy-dependencies -DoutputDirectory="$fetched" </dev/null >&2
    (cd "$fetched" && sha256sum --check --quiet --strict "$here/kafka/SHA256SUMS") >&2
    # Another process may have been faster.
    mv -T "$fetched" "$jars" 2>/dev/null || [ -d "$jars" ]
fi
echo "$jars"
