from typing import Any

class Arguments:
    names: tuple[str, ...]
    positional: bool
    def __new__(cls, format: str, *names: str, positional: bool = False) -> Arguments: ...
    def parse(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]: ...
