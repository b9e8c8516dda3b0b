"""Spark Connect: the source and the sink work, and the pipelines refuse its sessions.

PySpark allows only one kind of session in a process. So a program of its own has this one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkAttributeError

from kafka_native.spark.pipelines import PipelineError
from kafka_native.spark.pipelines.session import WorkCounter, context_of, open_session
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, flush, their_producer
from tests.spark.killing import module_running
from tests.spark.support import connect_missing
from tests.waiting import PROGRAM_S

RECORDS = 100
REFUSED = "the pipelines don't run in a session of Spark Connect"


class ConnectSession:
    """A session without a context, as that of Spark Connect."""

    @property
    def sparkContext(self) -> object:
        raise PySparkAttributeError(
            errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED",
            messageParameters={"attr_name": "sparkContext"},
        )


def test_pipelines_refuse_sessions_without_a_context() -> None:
    session: object = ConnectSession()
    for use in (context_of, WorkCounter):
        with pytest.raises(PipelineError, match=REFUSED):
            use(session)
    with (
        pytest.raises(PipelineError, match=REFUSED),
        open_session("name", session=session),  # type: ignore[arg-type]
    ):
        pass


@pytest.mark.slow
@pytest.mark.broker
def test_source_and_sink_work_with_spark_connect(
    apache: Cluster, new_topic: TopicMaker, tmp_path: Path
) -> None:
    why = connect_missing()
    if why:
        pytest.skip(f"no Spark Connect: {why}")
    source, target = (new_topic(apache, partitions=2) for _ in range(2))
    producer = their_producer(apache)
    for each in range(RECORDS):
        producer.produce(source, b"%d" % each, b"key-%d" % each, each % 2)
    flush(producer)
    settings = json.dumps([apache.bootstrap, source, target, str(tmp_path)])
    with module_running(tmp_path / "output", "tests.spark.connect_client", settings) as client:
        client.wait_for_success(PROGRAM_S)
        printed = client.output().splitlines()
    [found] = [json.loads(line) for line in printed if line.startswith('{"batch"')]
    refused = found.pop("refused")
    assert refused.keys() == {"archive", "mirror", "snapshot"}
    assert all(text.startswith(REFUSED) for text in refused.values())
    assert found == {
        "batch": {"read": RECORDS, "arrow": RECORDS, "filtered": RECORDS - 20, "written": RECORDS},
        "view": RECORDS,
        "streams": {"files": RECORDS, "foreach": RECORDS, "once": RECORDS},
        "progress": RECORDS,
    }
