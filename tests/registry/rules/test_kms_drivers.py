"""The drivers for key management services of clouds, on servers and packages of our own."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.encryption import kms_driver_registry
from kafka_native.schema_registry.rules.encryption.awskms.aws_driver import AwsKmsDriver
from kafka_native.schema_registry.rules.encryption.azurekms.azure_driver import AzureKmsDriver
from kafka_native.schema_registry.rules.encryption.gcpkms.gcp_driver import GcpKmsDriver
from kafka_native.schema_registry.rules.encryption.hcvault.hcvault_driver import HcVaultKmsDriver
from tests.registry.rules import kms_server
from tests.registry.rules.kms_server import Server, turned, turned_back

ARN = "arn:aws:kms:eu-west-1:111122223333:key/1234"
AWS_KEY = f"aws-kms://{ARN}"
AWS_CONF = {"access.key.id": "AKIDME", "secret.access.key": "hidden"}
VERSION = "0123456789abcdef0123456789ABCDEF"
VAULT_KEY = "https://vault.example.com/keys/mine"
GCP_KEY = "projects/p/locations/global/keyRings/r/cryptoKeys/k"


@pytest.fixture
def server() -> Iterator[Server]:
    with kms_server.running() as found:
        yield found


@pytest.fixture
def aws(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    pytest.importorskip("botocore", reason="keys of AWS KMS need botocore")
    for name in ("AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "missing")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "missing")
    return server


def check(aead: Any, other: Any = None) -> bytes:
    """Encrypt and decrypt, also by another package, and return the ciphertext."""
    ciphertext = aead.encrypt(b"data key", b"")
    assert aead.decrypt(ciphertext, b"") == b"data key"
    if other is not None:
        assert other.decrypt(ciphertext, b"") == b"data key"
        assert aead.decrypt(other.encrypt(b"data key", b""), b"") == b"data key"
    return bytes(ciphertext)


def test_aws(aws: Server) -> None:
    pytest.importorskip("boto3", reason="needs confluent_kafka[rules] as the witness")
    from confluent_kafka.schema_registry.rules.encryption.awskms import aws_driver

    client = AwsKmsDriver().new_kms_client(AWS_CONF, AWS_KEY)
    other = aws_driver.AwsKmsDriver().new_kms_client(AWS_CONF, AWS_KEY)
    ciphertext = check(client.get_aead(AWS_KEY), other.get_aead(AWS_KEY))
    assert ciphertext == turned(ARN, b"data key")
    signature = aws.requests[0][1]["authorization"]
    assert "Credential=AKIDME/" in signature
    assert "/eu-west-1/kms/" in signature


def test_aws_in_a_role(aws: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {
        **AWS_CONF,
        "role.arn": "arn:aws:iam::111122223333:role/r",
        "role.external.id": "outside",
    }
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "night-job")
    check(AwsKmsDriver().new_kms_client(conf, AWS_KEY).get_aead(AWS_KEY))
    assume, encrypt = aws.requests[:2]
    for part in (
        "RoleArn=arn%3Aaws%3Aiam%3A%3A111122223333%3Arole%2Fr",
        "ExternalId=outside",
        "RoleSessionName=night-job",
    ):
        assert part in assume[2]
    assert "Credential=ROLEKEY/" in encrypt[1]["authorization"]


@pytest.mark.parametrize("url", ["aws-kms://", "aws-kms://key", "gcp-kms://x", None])
def test_aws_needs_an_arn(url: str | None) -> None:
    with pytest.raises(RuleError, match=r"arn:aws:kms|begin with aws-kms://"):
        AwsKmsDriver().new_kms_client({}, url)


def vault_url(server: Server) -> str:
    return f"hcvault://{server.url}/team/transit/keys/my-key"


@pytest.fixture
def vault(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name in ("TOKEN", "NAMESPACE", "CACERT", "CLIENT_CERT", "CLIENT_KEY"):
        monkeypatch.delenv(f"VAULT_{name}", raising=False)
    return server


def test_vault(vault: Server) -> None:
    pytest.importorskip("hvac", reason="needs confluent_kafka[rules] as the witness")
    from confluent_kafka.schema_registry.rules.encryption.hcvault import hcvault_driver

    conf = {"token.id": "root-token", "namespace": "team-a"}
    url = vault_url(vault)
    client = HcVaultKmsDriver().new_kms_client(conf, url)
    other = hcvault_driver.HcVaultKmsDriver().new_kms_client(conf, url)
    assert check(client.get_aead(url), other.get_aead(url)).startswith(b"vault:v1:")
    assert vault.requests[0][0] == "/v1/team/transit/encrypt/my-key"
    assert vault.requests[0][1]["x-vault-namespace"] == "team-a"


def test_vault_takes_its_token_from_the_environment(
    vault: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "root-token")
    url = vault_url(vault)
    check(HcVaultKmsDriver().new_kms_client({}, url).get_aead(url))


def test_vault_logs_in_by_approle_and_again_after_the_token_expired(vault: Server) -> None:
    conf = {"approle.role.id": "role", "approle.secret.id": "hidden"}
    url = vault_url(vault)
    aead = HcVaultKmsDriver().new_kms_client(conf, url).get_aead(url)
    check(aead)
    vault.token = "the old one has expired"
    check(aead)
    logins = [path for path, _headers, _text in vault.requests if path.endswith("login")]
    assert len(logins) == 2


@pytest.mark.parametrize(
    "conf",
    [{"token.id": "wrong-token"}, {"approle.role.id": "role", "approle.secret.id": "wrong-token"}],
)
def test_vault_refuses_without_showing_credentials(vault: Server, conf: dict[str, str]) -> None:
    url = vault_url(vault)
    aead = HcVaultKmsDriver().new_kms_client(conf, url).get_aead(url)
    with pytest.raises(RuleError, match=r"HTTP status 40[03]") as caught:
        aead.encrypt(b"x", b"")
    assert "wrong-token" not in str(caught.value)
    assert "wrong-token" not in repr(aead) + repr(vars(aead))


def test_a_token_that_no_header_can_have_is_not_shown(vault: Server) -> None:
    """For instance one from a file, with its line end."""
    url = vault_url(vault)
    aead = HcVaultKmsDriver().new_kms_client({"token.id": "hidden\n"}, url).get_aead(url)
    with pytest.raises(RuleError, match="the token of Vault has a line end") as caught:
        aead.encrypt(b"data key", b"")
    assert "hidden" not in "".join(traceback.format_exception(caught.value))
    assert vault.requests == []


@pytest.mark.parametrize(
    "url",
    ["hcvault://", "hcvault://vault/transit/keys/x", "hcvault://http://vault/transit/x", None],
)
def test_vault_needs_a_whole_address(url: str | None) -> None:
    with pytest.raises(RuleError, match="hcvault://"):
        HcVaultKmsDriver().new_kms_client({}, url)


def test_vault_needs_a_certificate_for_its_key(vault: Server) -> None:
    with pytest.raises(ValueError, match=r"needs ssl\.certificate\.location"):
        HcVaultKmsDriver().new_kms_client({"ssl.key.location": "x"}, vault_url(vault))
    aead = HcVaultKmsDriver().new_kms_client({}, vault_url(vault)).get_aead(vault_url(vault))
    with pytest.raises(RuleError, match="no associated data"):
        aead.encrypt(b"x", b"more")


class FakeGoogle:
    """The client of google-cloud-kms."""

    def __init__(self, credentials: Any) -> None:
        self.credentials = credentials

    def encrypt(self, request: dict[str, Any]) -> Any:
        return SimpleNamespace(ciphertext=turned(request["name"], request["plaintext"]))

    def decrypt(self, request: dict[str, Any]) -> Any:
        return SimpleNamespace(plaintext=turned_back(request["name"], request["ciphertext"]))


def test_google(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakeGoogle] = []

    def client(credentials: Any) -> FakeGoogle:
        made.append(FakeGoogle(credentials))
        return made[-1]

    credentials = SimpleNamespace(from_service_account_info=dict)
    kms = SimpleNamespace(KeyManagementServiceClient=client)
    accounts = SimpleNamespace(Credentials=credentials)
    monkeypatch.setitem(sys.modules, "google.cloud.kms_v1", kms)
    monkeypatch.setitem(sys.modules, "google.oauth2.service_account", accounts)
    url = f"gcp-kms://{GCP_KEY}"
    conf = {name: name for name in ("client.id", "client.email", "private.key.id", "private.key")}
    assert check(GcpKmsDriver().new_kms_client(conf, url).get_aead(url)).startswith(b"projects/p/")
    check(GcpKmsDriver().new_kms_client({}, url).get_aead(url))
    assert made[0].credentials == {
        "type": "service_account",
        "client_id": "client.id",
        "client_email": "client.email",
        "private_key_id": "private.key.id",
        "private_key": "private.key",
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    assert made[1].credentials is None
    with pytest.raises(RuleError, match=r"account\.type"):
        GcpKmsDriver().new_kms_client({"account.type": "user"}, url)


class FakeCrypto:
    """azure.keyvault.keys.crypto.CryptographyClient."""

    def __init__(self, key: str, credential: Any) -> None:
        self.key = key

    def encrypt(self, algorithm: str, data: bytes) -> Any:
        return SimpleNamespace(ciphertext=turned(self.key, data))

    def decrypt(self, algorithm: str, data: bytes) -> Any:
        return SimpleNamespace(plaintext=turned_back(self.key, data))


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    state = SimpleNamespace(latest=VERSION, credentials=[])

    def keys(vault_url: str, credential: Any) -> Any:
        return SimpleNamespace(
            get_key=lambda name: SimpleNamespace(id=f"{vault_url}/keys/{name}/{state.latest}")
        )

    identity = SimpleNamespace(
        DefaultAzureCredential=lambda: state.credentials.append("default"),
        ClientSecretCredential=lambda *values: state.credentials.append(values),
    )
    crypto = SimpleNamespace(
        CryptographyClient=FakeCrypto, EncryptionAlgorithm=SimpleNamespace(rsa_oaep_256="RSA-OAEP")
    )
    for name, module in (
        ("azure.identity", identity),
        ("azure.keyvault.keys", SimpleNamespace(KeyClient=keys)),
        ("azure.keyvault.keys.crypto", crypto),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    return state


def azure_aead(key: str = VAULT_KEY, **conf: Any) -> Any:
    url = f"azure-kms://{key}"
    return AzureKmsDriver().new_kms_client(conf, url).get_aead(url)


def test_azure(azure: SimpleNamespace) -> None:
    assert check(azure_aead()) == turned(VAULT_KEY, b"data key")
    secret = {"tenant.id": "t", "client.id": "c", "client.secret": "s"}
    assert check(azure_aead(f"{VAULT_KEY}/5", **secret)) == turned(f"{VAULT_KEY}/5", b"data key")
    assert azure.credentials == ["default", ("t", "c", "s")]


def test_azure_saves_the_version_of_its_key(azure: SimpleNamespace) -> None:
    save = {"encrypt.azure.key.version.save": "true"}
    old = check(azure_aead(**save))
    assert old == b"azure:v1:" + VERSION.encode() + b":" + turned(
        f"{VAULT_KEY}/{VERSION}", b"data key"
    )
    azure.latest = "f" * 32
    assert check(azure_aead(**save)).startswith(b"azure:v1:" + b"f" * 32)
    for conf in ({}, save):
        assert azure_aead(**conf).decrypt(old, b"") == b"data key"
    assert azure_aead(**save).decrypt(turned(VAULT_KEY, b"older"), b"") == b"older"
    azure.latest = "short"
    with pytest.raises(RuleError, match="32 hex digits"):
        azure_aead(**save).encrypt(b"x", b"")


def test_azure_has_the_ciphertexts_of_confluent_kafka(azure: SimpleNamespace) -> None:
    reason = "needs confluent_kafka[rules] as the witness"
    pytest.importorskip("tink", reason=reason)
    source = "confluent_kafka.schema_registry.rules.encryption.azurekms.azure_aead"
    other = pytest.importorskip(source, reason=reason).AzureKmsAead(
        FakeCrypto(VAULT_KEY, None),
        "RSA-OAEP",
        lambda: (FakeCrypto(f"{VAULT_KEY}/{VERSION}", None), VERSION),
        lambda version: FakeCrypto(f"{VAULT_KEY}/{version}", None),
    )
    check(azure_aead(**{"encrypt.azure.key.version.save": True}), other)


@pytest.mark.parametrize("key", ["vault/keys/x", "https://vault/x", "https://vault/keys/a/b/c"])
def test_azure_needs_the_url_of_a_key(azure: SimpleNamespace, key: str) -> None:
    with pytest.raises(RuleError, match="https://vault/keys/name"):
        azure_aead(key)


@pytest.mark.parametrize(
    ("driver", "url", "module", "package"),
    [
        (AwsKmsDriver, AWS_KEY, "botocore.credentials", r"kafka-native\[aws\]"),
        (GcpKmsDriver, f"gcp-kms://{GCP_KEY}", "google.cloud.kms_v1", "google-cloud-kms"),
        (AzureKmsDriver, f"azure-kms://{VAULT_KEY}", "azure.identity", "azure-keyvault-keys"),
        (
            HcVaultKmsDriver,
            "hcvault://http://vault/transit/keys/x",
            "httpx2",
            r"kafka-native\[encryption\]",
        ),
    ],
)
def test_a_missing_package_is_named(
    driver: Any, url: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"pip install .*{package}"):
        driver().new_kms_client({}, url)


@pytest.mark.usefixtures("local_kms")
def test_drivers_register_themselves() -> None:
    for driver in (AwsKmsDriver, GcpKmsDriver, AzureKmsDriver, HcVaultKmsDriver):
        driver.register()
        prefix = driver().get_key_url_prefix()
        assert isinstance(kms_driver_registry.get_kms_driver(f"{prefix}x"), driver)


def test_a_client_is_bound_to_its_key(vault: Server) -> None:
    client = HcVaultKmsDriver().new_kms_client({}, vault_url(vault))
    assert client.does_support(vault_url(vault))
    with pytest.raises(RuleError, match="can't use the key hcvault://other"):
        client.get_aead("hcvault://other")
