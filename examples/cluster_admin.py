"""Manages a cluster: partition moves, quotas, log directories, features, quorum, topic pages."""

from __future__ import annotations

import os
import time

from kafka_native import TopicCollection, TopicPartition
from kafka_native.admin import (
    AdminClient,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    NewPartitionReassignment,
    NewTopic,
)

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")
with AdminClient({"bootstrap.servers": bootstrap}) as admin:
    made = admin.create_topics([NewTopic("parcels", 5, 1)], include_metadata=True)[
        "parcels"
    ].result()
    print(
        "made:", made.num_partitions, "partitions, retention.ms", made.config["retention.ms"].value
    )

    brokers = [node.id for node in admin.describe_cluster().result().nodes]
    moves = {
        TopicPartition("parcels", number): NewPartitionReassignment(brokers[-1:])
        for number in range(5)
    }
    for future in admin.alter_partition_reassignments(moves).values():
        future.result()
    while admin.list_partition_reassignments().result():
        time.sleep(0.1)
    parcels = TopicCollection(["parcels"])
    for page in admin.describe_topic_partitions(parcels, partition_limit=2):
        for topic in page.topics:
            homes = {each.leader for each in topic.partitions}
            print(
                "page:",
                [each.id for each in topic.partitions],
                "on the last broker:",
                homes == {brokers[-1]},
            )

    directories = admin.describe_log_dirs(brokers[-1:])[brokers[-1]].result()
    print(
        "in directories:",
        sum(TopicPartition("parcels", 0) in each.replica_infos for each in directories.values()),
    )

    reports = ClientQuotaEntity({"client-id": "reports"})
    admin.alter_client_quotas([ClientQuotaAlteration(reports, {"consumer_byte_rate": 1_000_000})])[
        reports
    ].result()
    theirs = ClientQuotaFilter.contains_only(
        [ClientQuotaFilterComponent.of_entity("client-id", "reports")]
    )
    found = admin.describe_client_quotas(theirs).result()
    while not found:  # brokers learn of it a moment later
        time.sleep(0.1)
        found = admin.describe_client_quotas(theirs).result()
    print("quotas of reports:", found[reports])
    admin.alter_client_quotas([ClientQuotaAlteration(reports, {"consumer_byte_rate": None})])[
        reports
    ].result()

    features = admin.describe_features().result()
    print("features known:", set(features.finalized_features) <= set(features.supported_features))
    quorum = admin.describe_metadata_quorum().result()
    print(
        "the active controller votes:",
        quorum.leader_id in {each.replica_id for each in quorum.voters},
    )
    admin.delete_topics(["parcels"])["parcels"].result()
