"""Rules of the types ENCRYPT and ENCRYPT_PAYLOAD."""

from __future__ import annotations

import base64
import io
import logging
import threading
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.encryption import kms_driver_registry
from kafka_native.schema_registry.rules.encryption.encrypt_executor import (
    Clock,
    EncryptionExecutor,
    FieldEncryptionExecutor,
)
from kafka_native.schema_registry.rules.encryption.localkms.local_client import LocalKmsClient
from tests.registry.rules.contracts import Schemas, context, rule
from tests.registry.rules.dek_server import DekServer

pytestmark = pytest.mark.usefixtures("local_kms")

PARAMS = {
    "encrypt.kek.name": "kek-1",
    "encrypt.kms.type": "local-kms",
    "encrypt.kms.key.id": "my key",
}
ORDER = {"id": 7, "card": "4111 ü 1111", "scan": b"\x00\xff image"}
DAY_MS = 24 * 60 * 60 * 1000


class SetClock(Clock):
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def now(self) -> int:
        return self.now_ms


def theirs(payload: bool, clock: Any = None) -> Any:
    """Return confluent_kafka's executor."""
    for module in ("tink", "hkdf"):
        pytest.importorskip(module, reason="needs confluent_kafka[rules] as the witness")
    from confluent_kafka.schema_registry.rules.encryption import encrypt_executor as module
    from confluent_kafka.schema_registry.rules.encryption import kms_driver_registry as drivers
    from confluent_kafka.schema_registry.rules.encryption.localkms.local_driver import (
        LocalKmsDriver,
    )

    drivers.reset_kms_drivers()
    LocalKmsDriver.register()
    kind = module.EncryptionExecutor if payload else module.FieldEncryptionExecutor
    return kind(clock) if clock else kind()


def ours(payload: bool, clock: Any = None) -> Any:
    return EncryptionExecutor(clock) if payload else FieldEncryptionExecutor(clock)


# An executor, and the package whose serializers it is in.
SIDES = {"ours": (ours, "ours"), "theirs": (theirs, "theirs"), "mixed": (ours, "theirs")}
EACH_PAIR = pytest.mark.parametrize(
    ("writer", "reader"), [("ours", "theirs"), ("theirs", "ours"), ("mixed", "theirs")]
)


def side(name: str, payload: bool = False, clock: Any = None) -> tuple[Any, str]:
    make, package = SIDES[name]
    return make(payload, clock), package


@EACH_PAIR
@pytest.mark.parametrize(
    ("payload", "algorithm", "params"),
    [
        (False, "AES128_GCM", {}),
        (False, "AES256_GCM", {}),
        (False, "AES256_SIV", {}),
        (True, "AES256_GCM", {}),
        (True, "AES256_SIV", {"encrypt.dek.expiry.days": "1"}),
    ],
)
def test_messages_cross_over(
    deks: DekServer, writer: str, reader: str, payload: bool, algorithm: str, params: dict[str, str]
) -> None:
    params = {**PARAMS, **params, "encrypt.dek.algorithm": algorithm}
    schemas = Schemas(deks.url)
    if payload:
        schemas.register(rule("ENCRYPT_PAYLOAD", params=params), phase="encoding")
    else:
        schemas.register(rule("ENCRYPT", params=params, tags=["PII"]))
    executor, package = side(writer, payload)
    sent = schemas.write([executor], dict(ORDER), package)
    assert b"4111" not in sent
    assert b"image" not in sent
    executor, package = side(reader, payload)
    assert schemas.read([executor], sent, package) == ORDER
    assert {key[2:] for key in deks.deks} == {(algorithm, 1)}


@EACH_PAIR
def test_keys_rotate(deks: DekServer, writer: str, reader: str) -> None:
    params = {**PARAMS, "encrypt.dek.expiry.days": "2"}
    schemas = Schemas(deks.url)
    schemas.register(rule("ENCRYPT", params=params, tags=["PII"]))
    deks.now_ms = 1_000_000
    clock = SetClock(deks.now_ms)
    executor, package = side(writer, clock=clock)
    sent = []
    for day in range(6):
        deks.now_ms = clock.now_ms = 1_000_000 + day * DAY_MS
        sent.append(schemas.write([executor], dict(ORDER), package))
    assert sorted(key[3] for key in deks.deks) == [1, 2]  # made on the days 0 and 3
    for each in sent:
        executor, package = side(reader)
        assert schemas.read([executor], each, package) == ORDER


def test_two_writers_rotate_to_the_same_key(deks: DekServer) -> None:
    params = {**PARAMS, "encrypt.dek.expiry.days": "2"}
    schemas = Schemas(deks.url)
    schemas.register(rule("ENCRYPT", params=params, tags=["PII"]))
    deks.now_ms = DAY_MS
    clock = SetClock(deks.now_ms)
    first, second = ours(False, clock), ours(False, clock)
    for executor in (first, second):
        schemas.write([executor], dict(ORDER))
    deks.now_ms = clock.now_ms = 5 * DAY_MS
    sent = [schemas.write([executor], dict(ORDER)) for executor in (first, second)]
    assert sorted(key[3] for key in deks.deks) == [1, 2]
    for each in sent:
        assert schemas.read([ours(False)], each) == ORDER
    assert base64.b64encode(b"\0\0\0\0\2")[:6] in sent[1]  # after the conflict: version 2


def configured(deks: DekServer, payload: bool = False) -> Any:
    executor = ours(payload)
    executor.configure({"url": deks.url}, {"secret": "mysecret"})
    return executor


def field(executor: Any, value: Any, kind: str = "STRING", **settings: Any) -> Any:
    """Encrypt or decrypt one field."""
    params = settings.pop("params", PARAMS)
    ctx = context(rule("ENCRYPT", params=params), **settings)
    found = ctx.enter_field({}, "Order.card", "card", kind, {"PII"})
    return executor.new_transform(ctx)(ctx, found, value)


def test_fields_of_other_types(deks: DekServer) -> None:
    executor = configured(deks)
    assert field(executor, None) is None
    with pytest.raises(RuleError, match="INT can't be encrypted"):
        field(executor, 7, "INT")
    assert field(executor, 7, "INT", mode="READ") == 7


def test_bytes_in_a_buffer(deks: DekServer) -> None:
    executor = configured(deks)
    sent = field(executor, io.BytesIO(b"data"), "BYTES")
    assert field(executor, io.BytesIO(sent), "BYTES", mode="READ") == b"data"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"encrypt.kek.name": None}, "encrypt.kek.name"),
        ({"encrypt.kek.name": ""}, "encrypt.kek.name"),
        ({"encrypt.kms.type": None}, "encrypt.kms.type"),
        ({"encrypt.kms.key.id": None}, "encrypt.kms.key.id"),
        ({"encrypt.dek.algorithm": "ROT13"}, "AES128_GCM"),
        ({"encrypt.dek.expiry.days": "soon"}, "'soon'"),
        ({"encrypt.dek.expiry.days": "-1"}, "'-1'"),
        ({"encrypt.kms.type": "other-kms"}, "no registered KMS driver"),
    ],
)
def test_wrong_parameters_are_named(
    deks: DekServer, params: dict[str, str | None], words: str
) -> None:
    with pytest.raises(RuleError, match=words):
        field(configured(deks), "x", params={**PARAMS, **params})


def test_parameters_come_from_the_schema_too(deks: DekServer) -> None:
    executor = configured(deks)
    sent = field(executor, "x", params={}, properties=PARAMS)
    assert field(executor, sent, mode="READ") == "x"


@pytest.mark.parametrize("name", ["encrypt.kms.type", "encrypt.kms.key.id"])
def test_a_rule_that_differs_from_its_kek_is_refused(deks: DekServer, name: str) -> None:
    executor = configured(deks)
    field(executor, "x")
    with pytest.raises(RuleError, match=f"the rule has {name} other, the KEK kek-1 has "):
        field(executor, "x", params={**PARAMS, name: "other"})


def test_reading_makes_no_keys(deks: DekServer) -> None:
    with pytest.raises(RuleError, match="no KEK kek-1"):
        field(configured(deks), b"x", "BYTES", mode="READ")
    field(configured(deks), b"x", "BYTES")
    with pytest.raises(RuleError, match="no DEK 1 of kek-1 for other-value"):
        field(configured(deks), b"x" * 40, "BYTES", mode="READ", subject="other-value")
    assert len(deks.keks) == len(deks.deks) == 1


def test_values_that_are_no_ciphertexts(deks: DekServer) -> None:
    executor = configured(deks)
    field(executor, "x")
    for value, words in (("%%%", "Base64"), ("eA==", "too short"), ("ü", "Base64")):
        with pytest.raises(RuleError, match=words):
            field(executor, value, mode="READ")
    expiring = {**PARAMS, "encrypt.dek.expiry.days": "1"}
    for data in (b"", b"\0\0\0\0", b"\1\0\0\0\1" + bytes(40)):
        with pytest.raises(RuleError, match="version of its DEK"):
            field(executor, data, "BYTES", mode="READ", params=expiring)


def test_migrations_cannot_encrypt(deks: DekServer) -> None:
    with pytest.raises(RuleError, match="the mode UPGRADE"):
        field(configured(deks), "x", mode="UPGRADE")


def test_contexts_have_keys_of_their_own(deks: DekServer) -> None:
    executor = configured(deks)
    for subject in (":.tenant:orders-value", "orders-value", ":.:orders-value"):
        sent = field(executor, "x", subject=subject)
        assert field(executor, sent, mode="READ", subject=subject) == "x"
    assert set(deks.keks) == {("kek-1", ".tenant"), ("kek-1", "")}


def test_the_registry_is_asked_once(deks: DekServer) -> None:
    executor = configured(deks)
    sent = [field(executor, f"value {index}") for index in range(20)]
    posts = [path for method, path, _query in deks.requests if method == "POST"]
    assert len(posts) == 2
    asked = len(deks.requests)
    assert [field(executor, each, mode="READ") for each in sent] == [
        f"value {index}" for index in range(20)
    ]
    assert len(deks.requests) == asked + 2  # for both keys with deleted keys included


def delete(url: str) -> None:
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.netloc)) as connection:
        connection.request("DELETE", parts.path)
        assert connection.getresponse().status < 300


def test_messages_of_deleted_keys_stay_readable() -> None:
    with MockSchemaRegistry() as registry:
        writer, reader = ours(False), ours(False)
        for executor in (writer, reader):
            executor.configure({"url": registry.url}, {"secret": "mysecret"})
        sent = field(writer, "x")
        for path in ("kek-1/deks/orders-value", "kek-1"):
            delete(f"{registry.url}/dek-registry/v1/keks/{path}")
        assert field(reader, sent, mode="READ") == "x"


def test_a_registry_that_refuses_is_named(deks: DekServer) -> None:
    executor = configured(deks)
    deks.failures = [403]
    with pytest.raises(RuleError, match=r"KEK kek-1: asked to fail .*403"):
        field(executor, "x")


def test_an_expired_key_stays_in_use_while_the_registry_refuses_a_new_one(
    deks: DekServer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetClock(DAY_MS)
    deks.now_ms = DAY_MS
    executor = ours(False, clock)
    executor.configure({"url": deks.url}, {"secret": "mysecret"})
    params = {**PARAMS, "encrypt.dek.expiry.days": "1"}
    for _ in range(2):
        field(executor, "x", params=params)
    clock.now_ms = 9 * DAY_MS
    deks.failures = [403] * 3
    with caplog.at_level(logging.WARNING):
        sent = [field(executor, "x", params=params) for _ in range(3)]
    assert caplog.text.count("expired DEK stays in use") == 3
    assert all(base64.b64decode(each).startswith(b"\0\0\0\0\1") for each in sent)
    assert base64.b64decode(field(executor, "x", params=params)).startswith(b"\0\0\0\0\2")


def test_alternate_kms_keys_serve_while_the_first_one_fails(deks: DekServer) -> None:
    class Down(kms_driver_registry.KmsDriver):
        def __init__(self) -> None:
            self.asked: list[str | None] = []

        def get_key_url_prefix(self) -> str:
            return "far-kms://"

        def new_kms_client(self, conf: Any, key_url: str | None) -> Any:
            self.asked.append(key_url)
            if key_url == "far-kms://one":
                raise OSError("unreachable")
            return LocalKmsClient(conf["secret"])

    driver = Down()
    kms_driver_registry.register_kms_driver(driver)
    executor = ours(False)
    more = {"encrypt.alternate.kms.key.ids": " two, three"}
    executor.configure({"url": deks.url}, {"secret": "mysecret", **more})
    params = {**PARAMS, "encrypt.kms.type": "far-kms", "encrypt.kms.key.id": "one"}
    sent = field(executor, "x", params=params)
    assert field(executor, sent, params=params, mode="READ") == "x"
    assert "far-kms://two" in driver.asked
    assert "far-kms://three" not in driver.asked
    alone = configured(deks)
    with pytest.raises(RuleError, match="no key of the KEK kek-1 can decrypt a DEK") as caught:
        field(alone, sent, params=params, mode="READ")
    assert isinstance(caught.value.__cause__, OSError)


def test_a_wrong_secret_is_reported_without_it(deks: DekServer) -> None:
    sent = field(configured(deks), "x")
    other = ours(False)
    other.configure({"url": deks.url}, {"secret": "wrong-secret"})
    with pytest.raises(RuleError, match="made with another key") as caught:
        field(other, sent, mode="READ")
    assert "secret" not in str(caught.value)


def test_one_executor_has_one_configuration(deks: DekServer) -> None:
    executor = configured(deks)
    executor.configure({"url": deks.url}, {"secret": "mysecret", "more": "1"})
    executor.configure({}, {})
    with pytest.raises(RuleError, match="another schema registry client"):
        executor.configure({"url": "http://other"}, {})
    with pytest.raises(RuleError, match="secret has another value") as caught:
        executor.configure({}, {"secret": "new"})
    assert "mysecret" not in str(caught.value)
    executor.close()


def test_an_executor_without_configuration_says_so() -> None:
    with pytest.raises(RuleError, match="no configuration"):
        field(ours(False), "x")


def test_drivers_are_found_by_prefix() -> None:
    assert kms_driver_registry.get_kms_driver("local-kms://x").get_key_url_prefix()
    with pytest.raises(RuleError, match="serves the key other://x"):
        kms_driver_registry.get_kms_driver("other://x")


def test_the_mock_registry_keeps_keys_in_memory() -> None:
    executor = ours(False)
    executor.configure({"url": "mock://"}, {"secret": "mysecret"})
    sent = field(executor, "x")
    assert field(executor, sent, mode="READ") == "x"
    rotating = {**PARAMS, "encrypt.dek.expiry.days": "1"}
    assert field(executor, field(executor, "x", params=rotating), params=rotating, mode="READ")


def test_executors_register_themselves(shared_registry: Any) -> None:
    EncryptionExecutor.register()
    FieldEncryptionExecutor.register()
    assert isinstance(shared_registry.get_executor("ENCRYPT"), FieldEncryptionExecutor)
    assert isinstance(shared_registry.get_executor("ENCRYPT_PAYLOAD"), EncryptionExecutor)
    clock = SetClock(1)
    for kind in (EncryptionExecutor, FieldEncryptionExecutor):
        executor = kind.register_with_clock(clock)
        assert shared_registry.get_executor(executor.type()) is executor


def test_threads_agree_on_one_key(deks: DekServer) -> None:
    executors = [configured(deks), configured(deks)]
    start = threading.Barrier(4)
    sent: list[str] = []

    def work(number: int) -> None:
        start.wait()
        sent.append(field(executors[number % 2], f"value {number}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(deks.keks) == len(deks.deks) == 1
    reader = configured(deks)
    found = sorted(field(reader, each, mode="READ") for each in sent)
    assert found == [f"value {number}" for number in range(4)]
