"""Makes programs for csrc/codecs/record_encode: what the compilers of all formats share."""

from __future__ import annotations

from collections.abc import Callable, Container

from kafka_native._native.encode_core import ENCODE_CODES, EncodeProgram
from kafka_native.codecs.arrow_types import ArrowType
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below

__all__ = ["EncodeCompiler", "EncodeOp"]


class EncodeOp:
    """An instruction. ``end`` may be set later, and the node's number is known at the end."""

    __slots__ = ("arg", "code", "column", "count", "end", "path")

    def __init__(
        self, code: str, column: ArrowType | None, arg: int, count: int, path: str
    ) -> None:
        self.code = code
        self.column = column
        self.arg = arg
        self.count = count
        self.path = path
        self.end = 0


class EncodeCompiler:
    """Collects instructions, table entries and constants: the base of the formats' compilers."""

    def __init__(self, ignore_extra: bool) -> None:
        """``ignore_extra``: leave out columns that the schema has no field for."""
        self._ignore_extra = ignore_extra
        self.ops: list[EncodeOp] = []
        self.table: list[int | ArrowType] = []
        self.constants = bytearray()

    @property
    def paths(self) -> list[str]:
        """The field of each instruction, for errors."""
        return [op.path for op in self.ops]

    def finish(self, column: ArrowType) -> EncodeProgram:
        """End the program for a column, and return it."""
        self.add("DONE", None, "")
        nodes = column.number()
        return EncodeProgram(
            nodes,
            [
                (
                    ENCODE_CODES[op.code],
                    -1 if op.column is None else op.column.node,
                    op.end,
                    op.arg,
                    op.count,
                )
                for op in self.ops
            ],
            [each.node if isinstance(each, ArrowType) else each for each in self.table],
            bytes(self.constants),
        )

    def columns_of(
        self, struct: ArrowType, fields: Container[str], path: str, schema: str = "schema"
    ) -> dict[str, ArrowType]:
        """Return a struct's columns by name.

        :raises SchemaError: Two have one name, or there is no field for a column.
        """
        found = {each.name: each for each in struct.children}
        if len(found) < len(struct.children):
            raise SchemaError("two columns of the struct have one name", path)
        extra = next((name for name in found if name not in fields), None)
        if extra is not None and not self._ignore_extra:
            text = f"the {schema} has no such field: leave it out, or encode with ignore_extra=True"
            raise SchemaError(text, below(path, extra))
        return found

    def add(
        self, code: str, column: ArrowType | None, path: str, arg: int = 0, count: int = 0
    ) -> EncodeOp:
        """Add an instruction. It reads the column, if there is one."""
        if column is not None:
            column.mark()
        op = EncodeOp(code, column, arg, count, path)
        self.ops.append(op)
        return op

    def add_constant(self, data: bytes, path: str) -> None:
        """Add an instruction that writes these bytes."""
        self.add("CONSTANT", None, path, *self.place(data))

    def add_items(self, code: str, column: ArrowType, path: str, write: Callable[[], None]) -> None:
        """Add an ARRAY or REPEATED with its body."""
        start = len(self.ops)
        op = self.add(code, column, path)
        write()
        self.add("NEXT", None, path, start)
        op.end = len(self.ops)

    def add_dictionary(self, column: ArrowType, path: str, write: Callable[[], None]) -> None:
        """Add a DICTIONARY with its body."""
        op = self.add("DICTIONARY", column, path)
        write()
        leave = self.add("LEAVE", None, path)
        op.end = leave.end = len(self.ops)

    def add_union(self, column: ArrowType, path: str, write: Callable[[ArrowType], None]) -> None:
        """Add a UNION. ``write`` adds the body of a child; if it refuses nulls, so does each row.

        :raises SchemaError: The type ids are malformed, or ``write`` refuses another child.
        """
        ids = column.type_ids
        if len(set(ids)) != len(column.children) or not all(0 <= each < 128 for each in ids):
            raise SchemaError(f"the type ids of {column.label} can't be used", path)
        op = self.add("UNION", column, path, len(self.table), max(ids) + 1)
        self.table += [-1, -1] * op.count
        leaves = [op]
        for number, child in sorted(
            zip(ids, column.children, strict=True), key=lambda each: each[0]
        ):
            start = len(self.ops)
            try:
                write(child)
            except SchemaError:
                if child.format != "n":
                    raise
                del self.ops[start:]
                continue
            self.table[op.arg + 2 * number : op.arg + 2 * number + 2] = [start, child]
            leaves.append(self.add("LEAVE", None, path))
        for each in leaves:
            each.end = len(self.ops)

    def add_symbols(self, code: str, column: ArrowType, path: str, symbols: dict[str, int]) -> None:
        """Add an ENUM or ENUM_NUMBER."""
        op = self.add(code, column, path, len(self.table), len(symbols))
        for symbol, number in sorted((key.encode(), number) for key, number in symbols.items()):
            self.table += [*self.place(symbol), number]
        assert len(self.table) == op.arg + 3 * op.count

    def place(self, data: bytes) -> tuple[int, int]:
        """Return place and size of a constant."""
        at = self.constants.find(data)
        if at < 0:
            at = len(self.constants)
            self.constants += data
        return at, len(data)

    def mark(self) -> tuple[int, int, int]:
        """Return the state, for `reset()`."""
        return len(self.ops), len(self.table), len(self.constants)

    def reset(self, mark: tuple[int, int, int]) -> None:
        """Remove what was added since a `mark()`."""
        del self.ops[mark[0] :], self.table[mark[1] :], self.constants[mark[2] :]
