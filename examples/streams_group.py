"""Two members of a streams group share the tasks of a topology.

It starts its own mock cluster. The second member joins, gets half of the tasks, and leaves again.
"""

from __future__ import annotations

from kafka_native import StreamsGroupMember
from kafka_native.mock import MockCluster
from kafka_native.streams_group import InternalTopic, Subtopology, TaskAssignment, Topology

TOPOLOGY = Topology(
    [
        Subtopology(
            "0",
            source_topics=["orders"],
            state_changelog_topics=[
                InternalTopic("totals-sums-changelog", configs={"cleanup.policy": "compact"})
            ],
        )
    ]
)


def apply(name: str, assignment: TaskAssignment | None) -> None:
    """Stop and start tasks; here it only prints them."""
    if assignment is None:
        return
    for status in assignment.statuses:
        print(f"{name}: {status.detail}")
    if assignment.revoked:
        print(f"{name} stops {sorted(task.partition for task in assignment.revoked)}")
    print(f"{name} runs {sorted(task.partition for task in assignment.active)}")


def share(bootstrap: str) -> None:
    """Run both members in turns until each has half of the tasks."""
    conf = {"bootstrap.servers": bootstrap, "group.id": "totals"}
    with StreamsGroupMember(conf, TOPOLOGY) as first:
        apply("first", first.poll(30))
        with StreamsGroupMember(conf, TOPOLOGY) as second:
            while len(second.assignment().active) < 2:
                apply("first", first.poll(0.1))  # confirms what it returned before
                apply("second", second.poll(0.1))
        while len(first.assignment().active) < 4:
            apply("first", first.poll(0.1))


with MockCluster(group_heartbeat=0.2) as cluster:
    cluster.create_topic("orders", 4)
    share(cluster.bootstrap_servers)
