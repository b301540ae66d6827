#!/bin/sh
# check-globals.sh -- fails if the core keeps state outside of an engine: any writable static, global
# or thread-local object in src/{base,proto,net,engine}.
#
#   tools/check-globals.sh [source.c ...]      CC=... chooses the compiler
#
# Read-only tables are fine, those of pointers too (.data.rel.ro is sealed once it is relocated).
# Exit 1: offenders, each printed. Exit 77: this machine has no compiler or no objdump.

cd "$(dirname "$0")/.." || exit 1
CC=${CC:-$(command -v gcc || command -v clang || command -v cc)}
if [ -z "$CC" ] || ! command -v objdump >/dev/null || ! command -v nm >/dev/null; then
    echo "globals: skipped, needs a C compiler, objdump and nm"
    exit 77
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT INT TERM
headers=$(node -p 'require("path").resolve(process.execPath, "../../include/node")' 2>/dev/null)

[ $# -gt 0 ] || set -- src/base/*.c src/proto/*.c src/net/*.c src/engine/*.c
checked=0
bad=0
for source in "$@"; do
    [ -e "$source" ] || continue # a pattern without a match stays as it is
    checked=$((checked + 1))
    # A section per object: the section's name is then the offender's. Unoptimised, so that a static
    # that the optimiser would drop is seen as well.
    if ! "$CC" -std=c11 -O0 -fPIC -fdata-sections -fcommon -I src ${headers:+-isystem "$headers"} \
        -c "$source" -o "$work/one.o"; then
        echo "$source: does not compile"
        bad=1
        continue
    fi
    objdump -h "$work/one.o" | awk -v source="$source" '
        $2 ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $2 !~ /^\.data\.rel\.ro/ && $3 !~ /^0+$/ {
            print source ": writable state in " $2; found = 1
        }
        END { exit found }' || bad=1
    nm "$work/one.o" | awk -v source="$source" '
        $2 == "C" || $2 == "c" { print source ": common symbol " $3; found = 1 }
        END { exit found }' || bad=1
done

if [ "$checked" -eq 0 ]; then
    echo "globals: nothing to check"
    exit 1
fi
[ "$bad" -eq 0 ] && echo "globals: $checked sources, no writable state"
exit "$bad"
