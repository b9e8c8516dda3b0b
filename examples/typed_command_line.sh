#!/bin/sh
# Typed messages in a shell script: register a schema, write JSON as Avro, read it back as JSON.
# It starts a mock registry. Set SCHEMA_REGISTRY_URL for your own.
# Needs `pip install 'kafka-native[cli,registry,avro,arrow]'`.
set -eu
kn() { kafka-native "$@"; }
export KAFKA_BOOTSTRAP="${BOOTSTRAP:-localhost:9092}"
topic="readings-$$"
folder=$(mktemp -d)
trap 'rm -r "$folder"; [ -z "${mock:-}" ] || kill "$mock"' EXIT

if [ -z "${SCHEMA_REGISTRY_URL:-}" ]; then
    mkfifo "$folder/mock"
    kafka-native mock --brokers 1 --registry >"$folder/mock" &
    mock=$!
    { read -r _ && read -r line; } <"$folder/mock" # it prints this when it is ready
    export SCHEMA_REGISTRY_URL="${line#*=}"
fi

cat >"$folder/reading.avsc" <<'SCHEMA'
{"type": "record", "name": "Reading", "fields": [
  {"name": "sensor", "type": "string"},
  {"name": "degrees", "type": ["null", "double"]},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}
SCHEMA
kn schemas register "$topic-value" "$folder/reading.avsc"
kn topics create "$topic" -p 1

kn produce -t "$topic" -s value=avro <<'LINES'
{"sensor":"roof","degrees":21.5,"at":"2024-05-01T12:00:00Z"}
{"sensor":"cellar","degrees":null,"at":"2024-05-01T12:00:00.250Z"}
LINES
kn consume "$topic" -e -q -s value=avro

# the same as typed columns in a file
kn consume "$topic" -e -q -s value=avro --columns value --flatten --parquet "$folder/readings.parquet"
python -c 'import pyarrow.parquet, sys; print(pyarrow.parquet.read_table(sys.argv[1])["degrees"].to_pylist())' \
    "$folder/readings.parquet"

# a line that doesn't fit the schema is named, and nothing of it is written
echo '{"sensor":"roof","degrees":"warm","at":0}' | kn produce -t "$topic" -s value=avro ||
    echo "refused: exit status $?"

# would a schema without the field degrees be compatible?
sed '/degrees/d' "$folder/reading.avsc" | kn schemas check "$topic-value" - --type avro
kn topics delete "$topic" --yes
