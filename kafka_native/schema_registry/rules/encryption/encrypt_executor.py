"""Rules of the types ENCRYPT (fields) and ENCRYPT_PAYLOAD (serialized messages).

A rule names its key encryption key (KEK) with the parameter ``encrypt.kek.name``. Each subject has
a data encryption key (DEK) of its own. The registry keeps it, encrypted by the KEK. With
``encrypt.dek.expiry.days``, a new DEK replaces an older one, and each ciphertext begins with a zero
byte and the version of its DEK in 4 bytes.
"""

from __future__ import annotations

import base64
import binascii
import io
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kafka_native.schema_registry.rules._interface import (
    BYTES,
    READ,
    STRING,
    WRITE,
    FieldContext,
    FieldRuleExecutor,
    FieldTransform,
    RegisteredExecutor,
    RuleContext,
    RuleError,
    RuleRegistry,
    SchemaRegistryError,
)
from kafka_native.schema_registry.rules.encryption.ciphers import Cryptor
from kafka_native.schema_registry.rules.encryption.dek_registry.dek_registry_client import (
    LATEST,
    DekRegistryClient,
)
from kafka_native.schema_registry.rules.encryption.dek_registry.keys import (
    Dek,
    DekAlgorithm,
    Kek,
)
from kafka_native.schema_registry.rules.encryption.kms_driver_registry import (
    Aead,
    KmsClient,
    get_kms_driver,
)

__all__ = [
    "AeadWrapper",
    "Clock",
    "Cryptor",
    "EncryptionExecutor",
    "EncryptionExecutorTransform",
    "FieldEncryptionExecutor",
    "FieldEncryptionExecutorTransform",
]

log = logging.getLogger(__name__)
Key = TypeVar("Key", Kek, Dek)
Executor = TypeVar("Executor", bound="_ClockedExecutor")

ENCRYPT_KEK_NAME = "encrypt.kek.name"
ENCRYPT_KMS_KEY_ID = "encrypt.kms.key.id"
ENCRYPT_KMS_TYPE = "encrypt.kms.type"
ENCRYPT_DEK_ALGORITHM = "encrypt.dek.algorithm"
ENCRYPT_DEK_EXPIRY_DAYS = "encrypt.dek.expiry.days"
ENCRYPT_ALTERNATE_KMS_KEY_IDS = "encrypt.alternate.kms.key.ids"

MILLIS_IN_DAY = 24 * 60 * 60 * 1000
NOT_FOUND = 404
CONFLICT = 409
MAGIC_BYTE = b"\0"
VERSION_BYTES = 4
HEADER_BYTES = len(MAGIC_BYTE) + VERSION_BYTES


class Clock:
    """The time by which data encryption keys expire."""

    def now(self) -> int:
        """Return the milliseconds since 1970."""
        return int(time.time() * 1000)


class _ClockedExecutor(RegisteredExecutor):
    """An executor with a clock, by which keys expire."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock if clock is not None else Clock()

    @classmethod
    def register_with_clock(cls: type[Executor], clock: Clock) -> Executor:
        """Add an executor with another clock, and return it.

        Parameters
        ----------
        clock : Clock
            The time by which keys expire.
        """
        executor = cls(clock)
        RuleRegistry.register_rule_executor(executor)
        return executor


class EncryptionExecutor(_ClockedExecutor):
    """Encrypts and decrypts serialized messages: rules of the type ENCRYPT_PAYLOAD.

    Parameters
    ----------
    clock : Clock, optional
        The time by which keys expire.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.client: DekRegistryClient | None = None
        self.config: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._kms_clients: dict[tuple[Any, ...], KmsClient] = {}

    def configure(self, client_conf: dict[str, Any], rule_conf: dict[str, Any]) -> None:
        """Accept the configuration. All serializers that share this executor have the same.

        Parameters
        ----------
        client_conf : dict[str, Any]
            The configuration of the schema registry client.
        rule_conf : dict[str, Any]
            Credentials of the key management service.

        Raises
        ------
        RuleError
            Another serializer has set another value.
        """
        with self._lock:
            if client_conf and self.client is None:
                self.client = DekRegistryClient.new_client(client_conf)
            elif client_conf and self.client is not None and self.client.config() != client_conf:
                raise RuleError("this executor is configured for another schema registry client")
            config = self.config or {}
            for name, value in (rule_conf or {}).items():
                if config.get(name, value) != value:
                    raise RuleError(f"rule_conf {name} has another value in this executor")
            self.config = {**config, **(rule_conf or {})}

    def type(self) -> str:
        """Return the rule type ``ENCRYPT_PAYLOAD``."""
        return "ENCRYPT_PAYLOAD"

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        """Return the encrypted or decrypted bytes.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        message : Any
            The serialized message.

        Raises
        ------
        RuleError
            The rule, the keys or the bytes don't allow it.
        """
        return self.new_transform(ctx).transform(ctx, BYTES, message)

    def new_transform(self, ctx: RuleContext) -> EncryptionExecutorTransform:
        """Return the object that encrypts or decrypts values for one rule.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.

        Raises
        ------
        RuleError
            The rule has no name of a key, or a wrong parameter.
        """
        kek_name = ctx.get_parameter(ENCRYPT_KEK_NAME)
        if not kek_name:
            raise RuleError(f"the rule {ctx.rule.name} needs the parameter {ENCRYPT_KEK_NAME}")
        algorithm = ctx.get_parameter(ENCRYPT_DEK_ALGORITHM) or "AES256_GCM"
        return EncryptionExecutorTransform(self, Cryptor(algorithm), kek_name, _expiry_days(ctx))

    def close(self) -> None:
        """Close the client of the DEK registry."""
        if self.client is not None:
            self.client.close()

    def kms_client(self, kek: Kek, kek_url: str) -> KmsClient:
        """Return the client for a key. Each client is made once.

        Parameters
        ----------
        kek : Kek
            The key encryption key.
        kek_url : str
            The URL of the key, or of an alternate key.
        """
        props = {} if kek.kms_props is None else kek.kms_props.properties
        config = {**(self.config or {}), **props}
        place = (kek_url, *sorted((name, str(value)) for name, value in config.items()))
        with self._lock:
            client = self._kms_clients.get(place)
        if client is None:
            client = get_kms_driver(kek_url).new_kms_client(config, kek_url)
            with self._lock:
                client = self._kms_clients.setdefault(place, client)
        return client


def _expiry_days(ctx: RuleContext) -> int:
    text = ctx.get_parameter(ENCRYPT_DEK_EXPIRY_DAYS)
    if text is None:
        return 0
    try:
        days = int(text)
    except ValueError:
        days = -1
    if days < 0:
        raise RuleError(f"{ENCRYPT_DEK_EXPIRY_DAYS} has to be a number of 0 or more, not {text!r}")
    return days


class EncryptionExecutorTransform:
    """Encrypts and decrypts values for one rule.

    Parameters
    ----------
    executor : EncryptionExecutor
        It has the client of the DEK registry and the configuration.
    cryptor : Cryptor
        The algorithm.
    kek_name : str
        The name of the key encryption key.
    dek_expiry_days : int
        The age at which a new DEK replaces one. 0 is never.
    """

    def __init__(
        self,
        executor: EncryptionExecutor,
        cryptor: Cryptor,
        kek_name: str,
        dek_expiry_days: int,
    ) -> None:
        self._executor = executor
        self._cryptor = cryptor
        self._kek_name = kek_name
        self._dek_expiry_days = dek_expiry_days
        self._kek: Kek | None = None

    def transform(self, ctx: RuleContext, field_type: Any, field_value: Any) -> Any:
        """Return the encrypted or decrypted value. None stays None.

        An encrypted str is Base64.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        field_type : FieldType
            The type of the value. STRING and BYTES can be encrypted.
        field_value : Any
            The value.

        Raises
        ------
        RuleError
            The rule, the keys or the value don't allow it.
        """
        if field_value is None:
            return None
        if ctx.rule_mode == WRITE:
            return self._encrypt(ctx, field_type, field_value)
        if ctx.rule_mode == READ:
            return self._decrypt(ctx, field_type, field_value)
        raise RuleError(f"the rule {ctx.rule.name} can't run in the mode {_text(ctx.rule_mode)}")

    def _encrypt(self, ctx: RuleContext, field_type: Any, value: Any) -> Any:
        if field_type == STRING:
            plaintext = value.encode()
        elif field_type == BYTES:
            plaintext = _bytes(value)
        else:
            raise RuleError(f"a field of the type {_text(field_type)} can't be encrypted")
        dek = self._dek(ctx, LATEST if self._dek_expiry_days else 1)
        ciphertext = self._cryptor.encrypt(self._key(dek), plaintext, Cryptor.EMPTY_AAD)
        if self._dek_expiry_days:
            if dek.version is None:
                raise RuleError("the registry returned a DEK without a version")
            ciphertext = MAGIC_BYTE + dek.version.to_bytes(VERSION_BYTES, "big") + ciphertext
        return base64.b64encode(ciphertext).decode() if field_type == STRING else ciphertext

    def _decrypt(self, ctx: RuleContext, field_type: Any, value: Any) -> Any:
        if field_type == STRING:
            try:
                ciphertext = base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                raise RuleError("the encrypted text is not Base64") from None
        elif field_type == BYTES:
            ciphertext = _bytes(value)
        else:
            return value
        version = 1
        if self._dek_expiry_days:
            if len(ciphertext) < HEADER_BYTES or not ciphertext.startswith(MAGIC_BYTE):
                raise RuleError("the ciphertext doesn't begin with the version of its DEK")
            version = int.from_bytes(ciphertext[len(MAGIC_BYTE) : HEADER_BYTES], "big")
            ciphertext = ciphertext[HEADER_BYTES:]
        dek = self._dek(ctx, version or 1)
        plaintext = self._cryptor.decrypt(self._key(dek), ciphertext, Cryptor.EMPTY_AAD)
        return plaintext.decode() if field_type == STRING else plaintext

    @staticmethod
    def _key(dek: Dek) -> bytes:
        key = dek.get_key_material_bytes()
        if key is None:
            raise RuleError(f"the DEK of {dek.subject} has no key")
        return key

    def _client(self) -> DekRegistryClient:
        if self._executor.client is None:
            raise RuleError("the executor has no configuration of a schema registry client")
        return self._executor.client

    def _dek(self, ctx: RuleContext, version: int) -> Dek:
        """Return the DEK with its key. A new one is made where there is none, or an old one."""
        kek = self._get_kek(ctx)
        reads = ctx.rule_mode == READ
        dek = self._find_dek(ctx, kek, version)
        if dek is None or self._is_expired(ctx, dek):
            if reads:
                raise RuleError(
                    f"the registry has no DEK {version} of {kek.name} for {ctx.subject}"
                )
            dek = self._new_dek(ctx, kek, version, dek)
        if dek.key_material is None:
            encrypted = dek.get_encrypted_key_material_bytes()
            if encrypted is None:
                raise RuleError(f"the registry returned a DEK of {kek.name} without its key")
            wrapper = AeadWrapper(self._executor, kek)
            dek.set_key_material(wrapper.decrypt(encrypted, Cryptor.EMPTY_AAD))
        return dek

    def _is_expired(self, ctx: RuleContext, dek: Dek) -> bool:
        if ctx.rule_mode == READ or not self._dek_expiry_days:
            return False
        age = self._executor.clock.now() - (dek.ts or 0)
        return age > self._dek_expiry_days * MILLIS_IN_DAY

    def _get_kek(self, ctx: RuleContext) -> Kek:
        if self._kek is not None:
            return self._kek
        kms_type = ctx.get_parameter(ENCRYPT_KMS_TYPE)
        kms_key_id = ctx.get_parameter(ENCRYPT_KMS_KEY_ID)
        context = _context(ctx.subject)
        # Messages of a deleted key stay readable.
        kek = self._find_kek(context, deleted=ctx.rule_mode == READ)
        if kek is None:
            if ctx.rule_mode == READ:
                raise RuleError(f"the registry has no KEK {self._kek_name}")
            for name, value in ((ENCRYPT_KMS_TYPE, kms_type), (ENCRYPT_KMS_KEY_ID, kms_key_id)):
                if not value:
                    raise RuleError(f"the new KEK {self._kek_name} needs the parameter {name}")
            kek = self._register_kek(str(kms_type), str(kms_key_id), context)
        for name, wanted, found in (
            (ENCRYPT_KMS_TYPE, kms_type, kek.kms_type),
            (ENCRYPT_KMS_KEY_ID, kms_key_id, kek.kms_key_id),
        ):
            if wanted and wanted != found:
                raise RuleError(
                    f"the rule has {name} {wanted}, the KEK {self._kek_name} has {found}"
                )
        self._kek = kek
        return kek

    def _find_kek(self, context: str | None, *, deleted: bool) -> Kek | None:
        return _unless(
            NOT_FOUND,
            lambda: self._client().get_kek(self._kek_name, deleted, context),
            f"the registry didn't return the KEK {self._kek_name}",
        )

    def _register_kek(self, kms_type: str, kms_key_id: str, context: str | None) -> Kek:
        kek = _unless(
            CONFLICT,
            lambda: self._client().register_kek(
                self._kek_name, kms_type, kms_key_id, False, context=context
            ),
            f"the registry didn't accept the KEK {self._kek_name}",
        )
        # On a conflict, another client has registered the key at the same time.
        kek = self._find_kek(context, deleted=False) if kek is None else kek
        if kek is None:
            raise RuleError(f"the registry has no KEK {self._kek_name}")
        return kek

    def _find_dek(self, ctx: RuleContext, kek: Kek, version: int) -> Dek | None:
        algorithm = DekAlgorithm(self._cryptor.dek_format)
        deleted = ctx.rule_mode == READ  # old messages stay readable
        dek = _unless(
            NOT_FOUND,
            lambda: self._client().get_dek(str(kek.name), ctx.subject, algorithm, version, deleted),
            f"the registry didn't return the DEK of {kek.name} for {ctx.subject}",
        )
        return dek if dek is not None and dek.encrypted_key_material else None

    def _new_dek(self, ctx: RuleContext, kek: Kek, version: int, expired: Dek | None) -> Dek:
        encrypted = None
        if not kek.shared:
            wrapper = AeadWrapper(self._executor, kek)
            key = wrapper.encrypt(self._cryptor.generate_key(), Cryptor.EMPTY_AAD)
            encrypted = base64.b64encode(key).decode()
        new_version = 1 if expired is None else (expired.version or 0) + 1
        algorithm = DekAlgorithm(self._cryptor.dek_format)
        try:
            dek = _unless(
                CONFLICT,
                lambda: self._client().register_dek(
                    str(kek.name), ctx.subject, encrypted, algorithm, new_version
                ),
                f"the registry didn't accept a DEK of {kek.name} for {ctx.subject}",
            )
        except RuleError:
            if expired is None:
                raise
            log.warning(
                "no new DEK of %s for %s: the expired DEK stays in use", kek.name, ctx.subject
            )
            return expired
        # On a conflict, another client has registered the key at the same time.
        dek = self._find_dek(ctx, kek, version) if dek is None else dek
        if dek is None:
            raise RuleError(f"the registry has no DEK of {kek.name} for {ctx.subject}")
        return dek


def _unless(status: int, request: Callable[[], Key], problem: str) -> Key | None:
    """Return the result of a request, or None if the registry answers with the status."""
    try:
        return request()
    except RuleError:
        raise
    except SchemaRegistryError as error:
        if error.http_status_code == status:
            return None
        raise RuleError(f"{problem}: {error}") from error
    except Exception as error:
        raise RuleError(f"{problem}: {type(error).__name__}") from error


def _context(subject: str | None) -> str | None:
    """Return the context of a subject like ``:.context:name``. The default context is None."""
    if subject is None or not subject.startswith(":."):
        return None
    context = subject[1:].partition(":")[0]
    return None if context == "." else context


def _bytes(value: Any) -> bytes:
    if isinstance(value, io.BytesIO):
        return value.read()  # a deserializer has already read the header
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise RuleError(f"a value of the type {type(value).__name__} is not bytes")


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


class AeadWrapper:
    """Encrypts DEKs with a KEK. Alternate keys serve while the first one fails.

    Parameters
    ----------
    executor : EncryptionExecutor
        It has the configuration and the clients of key management services.
    kek : Kek
        The key encryption key.
    """

    def __init__(self, executor: EncryptionExecutor, kek: Kek) -> None:
        self._executor = executor
        self._kek = kek
        props = {} if kek.kms_props is None else kek.kms_props.properties
        others = props.get(ENCRYPT_ALTERNATE_KMS_KEY_IDS)
        if others is None:
            others = (executor.config or {}).get(ENCRYPT_ALTERNATE_KMS_KEY_IDS)
        more = [key_id.strip() for key_id in (others or "").split(",")]
        self._kms_key_ids = [str(kek.kms_key_id), *filter(None, more)]

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        """Return the encrypted DEK.

        Parameters
        ----------
        plaintext : bytes
            The DEK.
        associated_data : bytes
            Empty bytes.
        """
        return self._first("encrypt", lambda aead: aead.encrypt(plaintext, associated_data))

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Return the DEK.

        Parameters
        ----------
        ciphertext : bytes
            The encrypted DEK.
        associated_data : bytes
            Empty bytes.
        """
        return self._first("decrypt", lambda aead: aead.decrypt(ciphertext, associated_data))

    def _first(self, verb: str, run: Callable[[Aead], bytes]) -> bytes:
        failure: Exception | None = None
        for kms_key_id in self._kms_key_ids:
            url = f"{self._kek.kms_type}://{kms_key_id}"
            try:
                return run(self._executor.kms_client(self._kek, url).get_aead(url))
            except Exception as error:
                failure = error
                log.warning("the KEK %s can't %s with the key %s", self._kek.name, verb, url)
        reason = f": {failure}" if isinstance(failure, RuleError) else ""
        raise RuleError(f"no key of the KEK {self._kek.name} can {verb} a DEK{reason}") from failure


class FieldEncryptionExecutor(_ClockedExecutor, FieldRuleExecutor):
    """Encrypts and decrypts tagged fields: rules of the type ENCRYPT.

    Parameters
    ----------
    clock : Clock, optional
        The time by which keys expire.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.executor = EncryptionExecutor(self.clock)

    def configure(self, client_conf: dict[str, Any], rule_conf: dict[str, Any]) -> None:
        """Accept the configuration. See ``EncryptionExecutor.configure()``.

        Parameters
        ----------
        client_conf : dict[str, Any]
            The configuration of the schema registry client.
        rule_conf : dict[str, Any]
            Credentials of the key management service.
        """
        self.executor.configure(client_conf, rule_conf)

    def type(self) -> str:
        """Return the rule type ``ENCRYPT``."""
        return "ENCRYPT"

    def new_transform(self, ctx: RuleContext) -> FieldTransform:
        """Return the function that encrypts or decrypts one field.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        """
        return FieldEncryptionExecutorTransform(self.executor.new_transform(ctx)).transform

    def close(self) -> None:
        """Close the client of the DEK registry."""
        self.executor.close()


class FieldEncryptionExecutorTransform:
    """Encrypts and decrypts fields for one rule.

    Parameters
    ----------
    executor_transform : EncryptionExecutorTransform
        It encrypts the values.
    """

    def __init__(self, executor_transform: EncryptionExecutorTransform) -> None:
        self.executor_transform = executor_transform

    def transform(self, ctx: RuleContext, field_ctx: FieldContext, field_value: Any) -> Any:
        """Return the encrypted or decrypted value of a field.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        field_ctx : FieldContext
            The field.
        field_value : Any
            The value.
        """
        return self.executor_transform.transform(ctx, field_ctx.field_type, field_value)
