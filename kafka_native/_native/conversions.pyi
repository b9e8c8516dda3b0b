from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, final

class Unknown: ...

@final
class LastConversion:
    def __new__(
        cls,
        topic: str,
        field: Any,
        framing: bytes,
        read: Callable[[bytes], Any],
        original_key: ContextVar[Any],
        *,
        is_key: bool,
    ) -> LastConversion: ...
    def object_of(self, data: Any, context: Any) -> Any: ...
