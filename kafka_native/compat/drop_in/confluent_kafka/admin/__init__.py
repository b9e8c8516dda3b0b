"""confluent_kafka's name for `kafka_native.admin`, with its AdminClient."""

from __future__ import annotations

from typing import Any

from kafka_native import admin
from kafka_native.admin import *

from .._clients import await_token as _await_token
from .._clients import check_new as _check_new
from .._clients import configuration as _configuration
from .._model import ConsumerGroupState as _ConsumerGroupState
from .._model import ConsumerGroupTopicPartitions as _ConsumerGroupTopicPartitions
from .._model import ConsumerGroupType as _ConsumerGroupType
from .._model import ElectionType as _ElectionType
from .._model import IsolationLevel as _IsolationLevel
from .._model import TopicCollection as _TopicCollection
from ..cimpl import TopicPartition as _TopicPartition
from ..cimpl import _AdminClientImpl
from . import (
    _acl,
    _cluster,
    _config,
    _group,
    _listoffsets,
    _metadata,
    _records,
    _resource,
    _scram,
    _topic,
)

__all__ = [*admin.__all__]


class AdminClient(_AdminClientImpl):  # type: ignore[no-redef]  # in place of the star import's
    """A `kafka_native.admin.AdminClient` that behaves like confluent_kafka's."""

    _eager = True

    def __init__(self, conf: dict[str, Any], **kwargs: Any) -> None:
        """Take a configuration as a dict, and keywords."""
        _check_new(self, "Admin already __init__:ialized")
        given = _configuration((conf,), kwargs, "admin")
        super().__init__(given)
        _await_token(self, given)
