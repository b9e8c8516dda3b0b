"""The physical type of a column, as a tree of nodes. csrc/codecs/layout.h has the kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from kafka_native._native.codec_core import NODE_KINDS, Layout

__all__ = [
    "Node",
    "bits",
    "dense_union",
    "dictionary",
    "fixed",
    "layout_of",
    "list_of",
    "map_of",
    "nulls",
    "struct",
    "varying",
]

NULLABLE = 2
"""ARROW_FLAG_NULLABLE of Arrow's C data interface."""


@dataclass(frozen=True)
class Node:
    """One column.

    Attributes
    ----------
    kind : str
        The physical kind, a key of ``NODE_KINDS``.
    format : str
        The type in Arrow's C data interface. Of a dictionary: the type of its values.
    name : str
        The name of the field.
    nullable : bool
        Whether values may be null.
    width_bytes : int
        The size of an item with a fixed width.
    children : tuple of Node
        The columns below.
    values : tuple of str
        The values of a dictionary.
    extension : str
        The name of Arrow's extension type, such as ``arrow.uuid``. Empty: none.
    """

    kind: str
    format: str
    name: str
    nullable: bool = False
    width_bytes: int = 0
    children: tuple[Node, ...] = ()
    values: tuple[str, ...] = ()
    extension: str = ""

    @cached_property
    def size(self) -> int:
        """The number of nodes of the tree."""
        return 1 + sum(child.size for child in self.children)

    def walk(self) -> Iterator[Node]:
        """Yield the nodes in preorder."""
        yield self
        for child in self.children:
            yield from child.walk()


def nulls(name: str) -> Node:
    """Return a column of nulls."""
    return Node("none", "n", name, True)


def bits(name: str, nullable: bool) -> Node:
    """Return a column of booleans."""
    return Node("bits", "b", name, nullable)


def fixed(name: str, nullable: bool, format: str, width_bytes: int, extension: str = "") -> Node:
    """Return a column of items of a fixed width."""
    return Node("fixed", format, name, nullable, width_bytes, extension=extension)


def varying(name: str, nullable: bool, *, is_text: bool) -> Node:
    """Return a column of strings or of bytes."""
    return Node("bytes", "u" if is_text else "z", name, nullable)


def dictionary(name: str, nullable: bool, values: tuple[str, ...]) -> Node:
    """Return a column of strings, each of them one of a few."""
    return Node("dictionary", "u", name, nullable, values=values)


def struct(name: str, nullable: bool, children: tuple[Node, ...]) -> Node:
    """Return a column of structs."""
    return Node("struct", "+s", name, nullable, children=children)


def list_of(name: str, nullable: bool, item: Node) -> Node:
    """Return a column of lists."""
    return Node("list", "+l", name, nullable, children=(item,))


def map_of(name: str, nullable: bool, value: Node) -> Node:
    """Return a column of maps from strings."""
    entries = struct("entries", False, (varying("key", False, is_text=True), value))
    return Node("list", "+m", name, nullable, children=(entries,))


def dense_union(name: str, children: tuple[Node, ...]) -> Node:
    """Return a column whose values each belong to one of the children."""
    ids = ",".join(map(str, range(len(children))))
    return Node("union", f"+ud:{ids}", name, children=children)


def layout_of(node: Node) -> Layout:
    """Return the layout for the decoders in C.

    :raises ValueError: The tree exceeds a limit.
    """
    return Layout(
        (
            NODE_KINDS[each.kind],
            each.width_bytes,
            len(each.children),
            NULLABLE if each.nullable else 0,
            each.format,
            each.name,
            each.values,
            each.extension,
        )
        for each in node.walk()
    )
