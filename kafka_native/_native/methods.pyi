from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

def implemented_by(method: Callable[..., Any]) -> Callable[[F], F]: ...
