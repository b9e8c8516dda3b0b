"""The executors of data-contract rules for ``consume -s`` and ``produce -s``.

A schema of the registry may have rules that check, change or encrypt messages. A command makes the
executor of a rule's type when the first schema needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kafka_native.schema_registry.rule_registry import RuleRegistry

if TYPE_CHECKING:
    from kafka_native.schema_registry import SchemaRegistryClient
    from kafka_native.schema_registry.rule_types import RuleExecutor

_RULES: Final = "kafka_native.schema_registry.rules"
_ENCRYPTION: Final = f"{_RULES}.encryption"
_ENCRYPTION_TYPES: Final = ("ENCRYPT", "ENCRYPT_PAYLOAD")

EXECUTORS: Final = {
    "CEL": (f"{_RULES}.cel.cel_executor", "CelExecutor"),
    "CEL_FIELD": (f"{_RULES}.cel.cel_field_executor", "CelFieldExecutor"),
    "JSONATA": (f"{_RULES}.jsonata.jsonata_executor", "JsonataExecutor"),
    "ENCRYPT": (f"{_ENCRYPTION}.encrypt_executor", "FieldEncryptionExecutor"),
    "ENCRYPT_PAYLOAD": (f"{_ENCRYPTION}.encrypt_executor", "EncryptionExecutor"),
}
"""The module and the class of each type's executor."""

KMS_DRIVERS: Final = (
    (f"{_ENCRYPTION}.localkms.local_driver", "LocalKmsDriver"),
    (f"{_ENCRYPTION}.awskms.aws_driver", "AwsKmsDriver"),
    (f"{_ENCRYPTION}.gcpkms.gcp_driver", "GcpKmsDriver"),
    (f"{_ENCRYPTION}.azurekms.azure_driver", "AzureKmsDriver"),
    (f"{_ENCRYPTION}.hcvault.hcvault_driver", "HcVaultKmsDriver"),
)
"""The drivers of key management services. Each imports the package of its cloud on first use."""


class CommandRules(RuleRegistry):
    """Holds the executors that a command has needed so far.

    :param client_conf: The configuration of the registry's client.
    :param rule_conf: The configuration of executors, such as credentials for encryption.
    """

    __slots__ = ("_client_conf", "_rule_conf")

    def __init__(self, client_conf: dict[str, Any], rule_conf: dict[str, Any]) -> None:
        super().__init__()
        self._client_conf = client_conf
        self._rule_conf = rule_conf

    def get_executor(self, name: str) -> RuleExecutor | None:
        """Return the executor of a type, or None for a type that nobody knows.

        :raises ImportError: The executor needs a package that is missing.
        """
        found = super().get_executor(name)
        if found is None and name in EXECUTORS:
            if name in _ENCRYPTION_TYPES:
                for module, driver in KMS_DRIVERS:
                    getattr(import_module(module), driver).register()
            module, executor = EXECUTORS[name]
            made: RuleExecutor = getattr(import_module(module), executor)()
            made.configure(self._client_conf, self._rule_conf)
            self.register_executor(made)
            found = made
        return found


@contextmanager
def command_rules(
    client: SchemaRegistryClient, rule_conf: Mapping[str, str]
) -> Iterator[CommandRules]:
    """Make the rules of a command, and close their executors after the block."""
    rules = CommandRules(client.config(), dict(rule_conf))
    try:
        yield rules
    finally:
        for executor in rules.get_executors():
            executor.close()
