#!/bin/sh
# kafka-native in a shell script: a topic, messages in and out, a group's lag, offsets.
# The exit status shows a failure.
# Needs `pip install 'kafka-native[cli]'`.
set -eu
kn() { kafka-native "$@" -b "${BOOTSTRAP:-localhost:9092}"; }
topic="calls-$$"

kn topics create "$topic" -p 1
# one message per line, the key before the first colon
printf 'ann:rang\nbob:engaged\nann:hung up\n' | kn produce -t "$topic" -K :
kn consume -t "$topic" -o beginning -e -q -f '%o %k %s\n'

# JSON envelopes carry keys, headers and times unchanged into a second topic
kn topics create "$topic-copy" -p 1
kn consume -t "$topic" -o beginning -e -q -J | kn produce -t "$topic-copy" -J
echo "copied: $(kn consume -t "$topic-copy" -o beginning -e -q -f '%k\n' | sort | uniq -c | tr -s ' \n' ' ')"

# a group commits the printed messages; its lag is the number of the others
kn consume -t "$topic" -G "$topic-readers" -o beginning -c 2 -q -f '%s\n' >/dev/null
echo "lag: $(kn groups lag "$topic-readers" --json | tr -d ' \n')"

echo "begins and ends: $(kn topics offsets "$topic:0" --json | tr -d ' \n')"
kn topics delete "$topic" "$topic-copy" --yes
kn topics describe "$topic" 2>/dev/null || echo "gone: exit status $?"
