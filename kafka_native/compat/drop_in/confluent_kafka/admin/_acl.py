"""confluent_kafka's name for a part of `kafka_native.admin.acls`."""

from kafka_native.admin.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)

from .. import cimpl as _cimpl
from .._util import ConversionUtil, ValidationUtil
from ._resource import ResourcePatternType, ResourceType

string_type = str

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
]
