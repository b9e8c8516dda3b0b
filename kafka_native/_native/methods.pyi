from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

def implemented_by(method: Callable[..., Any]) -> Callable[[_F], _F]: ...
