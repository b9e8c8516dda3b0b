"""Spark on a cluster with TLS and passwords.

Needs `pip install 'kafka-native[spark,mock]'` and Java 17.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.spark import KafkaNativeDataSource

# A temporary cluster, with its own certificate authority and one user.
security = ListenerSecurity("sasl_ssl", mechanisms=["SCRAM-SHA-512"], users={"alice": "hunter2"})
cluster = MockCluster(brokers=1, security=security)
cluster.create_topic("orders", 2)

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")  # one query fails on purpose and would fill the screen
spark.dataSource.register(KafkaNativeDataSource)
# Spark redacts options with names like password or token. A private key needs this setting.
spark.conf.set("spark.sql.redaction.options.regex", r"(?i)url|\.key$|\.pem$")


def secured(password: str) -> dict[str, str]:
    """Return options that Spark's own connector accepts, too."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{module} required username="alice" password="{password}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": cluster.security.ca_pem,
    }


frame = spark.range(1000).selectExpr("CAST(id AS string) AS key", "CAST(id AS string) AS value")
frame.write.format("kafka_native").options(**secured("hunter2")).option("topic", "orders").mode(
    "append"
).save()
orders = (
    spark.read.format("kafka_native")
    .options(**secured("hunter2"))
    .option("subscribe", "orders")
    .load()
)
print("rows:", orders.count())

# A refused login fails at once, with its reason.
try:
    spark.read.format("kafka_native").options(**secured("hunter3")).option(
        "subscribe", "orders"
    ).load().count()
except Exception as error:
    text = str(error)
    print("refused:", next(line for line in text.splitlines() if "KafkaException: " in line))
    print("the password is in the error:", "hunter3" in text)

spark.stop()
cluster.close()
