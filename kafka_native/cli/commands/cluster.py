"""``kafka-native cluster``: the cluster, its brokers and its controller."""

from __future__ import annotations

import click

from kafka_native.cli.connecting import Connection, connected
from kafka_native.cli.managing import administration
from kafka_native.cli.showing import Output, json_option


@click.command("cluster")
@connected()
@json_option
def command(connection: Connection, output: Output) -> None:
    """Show the cluster's id, its brokers with their racks, and who is asked for changes."""
    with administration(connection) as admin:
        found = admin.describe_cluster(request_timeout=connection.timeout_s).result()
    controller = None if found.controller is None else found.controller.id
    brokers = [
        {
            "broker": each.id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "controller": each.id == controller,
        }
        for each in sorted(found.nodes, key=lambda node: node.id)
    ]
    if output.as_json:
        output.document({"cluster_id": found.cluster_id, "controller": controller, "brokers": brokers})
        return
    output.say(f"cluster {found.cluster_id or 'without an id'}, {len(brokers)} brokers")
    headings = {"broker": "broker", "host": "host", "port": "port", "rack": "rack", "controller": "controller"}
    output.rows(brokers, headings)
