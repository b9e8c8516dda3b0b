"""The client of the DEK registry."""

from __future__ import annotations

import base64
import socket
import sys
from typing import Any

import pytest

from kafka_native.schema_registry.rules._interface import RuleError, SchemaRegistryError
from kafka_native.schema_registry.rules.encryption.dek_registry.dek_registry_client import (
    Dek,
    DekAlgorithm,
    DekRegistryClient,
    Kek,
    KekKmsProps,
)
from kafka_native.schema_registry.rules.encryption.dek_registry.mock_dek_registry_client import (
    MockDekRegistryClient,
)
from kafka_native.schema_registry.rules.encryption.dek_registry.rest import HttpRestClient
from tests.registry.rules.dek_server import DekServer

KEY = base64.b64encode(b"encrypted").decode()
EACH_CLIENT = pytest.mark.parametrize("kind", [DekRegistryClient, MockDekRegistryClient])


@EACH_CLIENT
def test_keys_are_registered_and_found(deks: DekServer, kind: type[DekRegistryClient]) -> None:
    with kind({"url": deks.url}) as client:
        kek = client.register_kek("k 1/x", "local-kms", "id", kms_props={"a": "b"}, doc="text")
        assert client.get_kek("k 1/x") == kek
        assert (kek.kms_props, kek.doc, kek.shared) == (KekKmsProps({"a": "b"}), "text", False)
        assert kek.ts is not None
        dek = client.register_dek("k 1/x", "a/b c", KEY)
        assert client.get_dek("k 1/x", "a/b c") == dek
        assert dek.get_encrypted_key_material_bytes() == b"encrypted"
        assert dek.algorithm is DekAlgorithm.AES256_GCM
        client.register_dek("k 1/x", "a/b c", KEY, version=2)
        assert client.get_dek("k 1/x", "a/b c", version=-1).version == 2


@EACH_CLIENT
def test_missing_keys_have_the_status_404(deks: DekServer, kind: type[DekRegistryClient]) -> None:
    client = kind({"url": deks.url})
    for ask in (lambda: client.get_kek("k"), lambda: client.get_dek("k", "s")):
        with pytest.raises(SchemaRegistryError, match="status code 404") as caught:
            ask()
        assert (caught.value.http_status_code, caught.value.error_code) == (404, 40470)


@EACH_CLIENT
def test_another_key_of_the_same_version_is_a_conflict(
    deks: DekServer, kind: type[DekRegistryClient]
) -> None:
    client = kind({"url": deks.url})
    client.register_dek("k", "s", KEY)
    client.get_dek("k", "s", version=-1)
    client._deks.pop(next(key for key in client._deks if key.version == 1))
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_dek("k", "s", "other")
    assert caught.value.http_status_code == 409
    assert not client._deks, "the latest key is asked for again after a conflict"


def test_a_latest_key_from_before_a_rotation_is_replaced(
    deks: DekServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer came after another thread had registered the next key."""
    handle = deks.handle
    with DekRegistryClient({"url": deks.url}) as client:
        client.register_dek("k", "s", KEY)

        def rotate(method: str, *request: Any) -> Any:
            answer = handle(method, *request)
            if method == "GET":
                monkeypatch.undo()
                client.register_dek("k", "s", KEY, version=2)
            return answer

        monkeypatch.setattr(deks, "handle", rotate)
        assert client.get_dek("k", "s", version=-1).version == 1
        assert client.register_dek("k", "s", KEY, version=2).version == 2  # as the first expired
        assert client.get_dek("k", "s", version=-1).version == 2
        assert [method for method, _, _ in deks.requests] == ["POST", "GET", "POST", "GET"]


def test_paths_and_queries(deks: DekServer) -> None:
    client = DekRegistryClient({"url": deks.url})
    client.register_kek("k/1", "t", "id", context=".c")
    client.get_kek("k/1", deleted=True, context=".c")
    client.register_dek("k/1", "s/1", KEY, DekAlgorithm.AES256_SIV)
    client.get_dek("k/1", "s/1", DekAlgorithm.AES256_SIV, deleted=True)
    root = "/dek-registry/v1/keks"
    assert deks.requests == [
        ("POST", root, "context=.c"),
        ("GET", f"{root}/k%2F1", "deleted=true&context=.c"),
        ("POST", f"{root}/k%2F1/deks/s%2F1", ""),
        ("GET", f"{root}/k%2F1/deks/s%2F1/versions/1", "algorithm=AES256_SIV&deleted=true"),
    ]


def test_keys_are_asked_for_once(deks: DekServer) -> None:
    client = DekRegistryClient({"url": deks.url})
    client.register_kek("k", "t", "id")
    client.register_dek("k", "s", KEY)
    for _ in range(3):
        client.get_kek("k")
        client.get_dek("k", "s")
        client.register_kek("k", "t", "id")
        client.register_dek("k", "s", KEY)
    assert len(deks.requests) == 2


def test_older_registries_have_no_subject_in_the_path(deks: DekServer) -> None:
    deks.without_subject_path = True
    client = DekRegistryClient({"url": deks.url})
    assert client.register_dek("k", "s", KEY).subject == "s"
    assert [path for _method, path, _query in deks.requests] == [
        "/dek-registry/v1/keks/k/deks/s",
        "/dek-registry/v1/keks/k/deks",
    ]


def test_another_address_serves_while_the_first_one_is_away(deks: DekServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        client = DekRegistryClient({"url": f"{address}, {deks.url}/"})
        assert client.register_kek("k", "t", "id").name == "k"


def test_busy_registries_are_asked_again(deks: DekServer) -> None:
    deks.failures = [503, 429]
    client = DekRegistryClient({"url": deks.url, "max.retries": 2, "retries.wait.ms": 1})
    assert client.register_kek("k", "t", "id").name == "k"
    deks.failures = [503]
    with pytest.raises(SchemaRegistryError, match="status code 503"):
        DekRegistryClient({"url": deks.url, "max.retries": 0}).get_kek("k")


def test_credentials_are_those_of_the_schema_registry(deks: DekServer) -> None:
    conf = {"url": deks.url, "basic.auth.user.info": "me:password"}
    DekRegistryClient(conf).register_kek("k", "t", "id")
    headers = {key.lower(): found for key, found in deks.headers[0].items()}
    assert headers["authorization"] == "Basic bWU6cGFzc3dvcmQ="
    assert headers["content-type"] == "application/vnd.schemaregistry.v1+json"


@pytest.mark.parametrize(
    "conf", [{"url": ""}, {"url": "http://x", "basic.auth.user.info": "hunter2"}]
)
def test_wrong_properties_are_refused(conf: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"url|basic\.auth") as caught:
        DekRegistryClient(conf)
    assert "hunter2" not in str(caught.value)


def test_an_answer_of_another_shape_is_refused(deks: DekServer) -> None:
    deks.keks["k", ""] = ["no", "object"]  # type: ignore[assignment]
    with pytest.raises(SchemaRegistryError, match="wrong shape"):
        DekRegistryClient({"url": deks.url}).get_kek("k")


def test_a_missing_httpx_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=r"pip install 'kafka-native\[registry\]'"):
        HttpRestClient({"url": "http://x"})


def test_another_rest_client_can_be_passed() -> None:
    class Recorder:
        closed = False

        def get(self, url: str, query: dict[str, Any] | None = None) -> Any:
            return {"name": url}

        def post(self, url: str, body: dict[str, Any] | None) -> Any:
            return {"name": url, **(body or {})}

        def close(self) -> None:
            self.closed = True

    recorder = Recorder()
    with DekRegistryClient({}, recorder) as client:
        assert client.get_kek("k").name == "/dek-registry/v1/keks/k"
    assert recorder.closed


def test_new_client_chooses_by_the_url() -> None:
    pytest.importorskip("httpx2", reason="the DEK registry client needs httpx2")
    new = DekRegistryClient.new_client
    assert isinstance(new({}), MockDekRegistryClient)
    assert isinstance(new({"url": "mock://"}), MockDekRegistryClient)
    assert type(new({"url": "http://x"})) is DekRegistryClient


def test_clients_of_a_named_mock_registry_share_keys() -> None:
    pytest.importorskip("httpx2", reason="the DEK registry client needs httpx2")
    conf = {"url": "mock://shared-keys"}
    with DekRegistryClient.new_client(conf) as one, DekRegistryClient.new_client(conf) as two:
        one.register_kek("kek", "local-kms", "id")
        one.register_dek("kek", "subject", KEY)
        assert two.get_dek("kek", "subject").encrypted_key_material == KEY


def test_keys_become_json_and_back() -> None:
    kek = Kek("k", "t", "id", KekKmsProps({"a": "b"}), "doc", True, 5, True)
    assert Kek.from_dict(kek.to_dict()) == kek
    assert set(kek.to_dict()) == {
        "name",
        "kmsType",
        "kmsKeyId",
        "kmsProps",
        "doc",
        "shared",
        "ts",
        "deleted",
    }
    dek = Dek("k", "s", 2, DekAlgorithm.AES128_GCM, KEY, KEY, 5, True)
    assert Dek.from_dict(dek.to_dict()) == dek
    assert dek.to_dict()["algorithm"] == "AES128_GCM"
    assert Kek.from_dict({}).to_dict() == Dek.from_dict({}).to_dict() == {}


def test_representations_hide_keys_and_credentials() -> None:
    dek = Dek("k", "s", 1, DekAlgorithm.AES256_GCM, KEY)
    dek.set_key_material(b"top secret")
    assert dek.get_key_material_bytes() == b"top secret"
    shown = repr(dek) + str(dek)
    assert base64.b64encode(b"top secret").decode() not in shown
    assert KEY not in shown
    kek = Kek("k", "t", "id", KekKmsProps({"token.id": "hunter2"}), None, False)
    assert "token.id" in repr(kek)
    assert "hunter2" not in repr(kek)
    dek.set_key_material(None)
    assert dek.get_key_material_bytes() is None


def test_key_material_that_is_not_base64_is_refused() -> None:
    with pytest.raises(RuleError, match="not Base64"):
        Dek("k", "s", 1, None, "%").get_encrypted_key_material_bytes()
