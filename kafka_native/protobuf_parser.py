"""Reads the text of a .proto file into protobuf's FileDescriptorProto."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

SCALARS: Final = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7,
    "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16,
    "sint32": 17, "sint64": 18,
}  # fmt: skip
"""The names of scalar types, with the numbers of FieldDescriptorProto.Type."""

TYPE_GROUP: Final = 10
TYPE_MESSAGE: Final = 11
LABELS: Final = {"optional": 1, "required": 2, "repeated": 3}
FIELD_NUMBER_MAX: Final = (1 << 29) - 1

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<mark>[{}\[\]()<>=;:,.+\-/])""",
    re.X | re.S,
)
_NESTING_MAX = 64
_NUMBER_MAX = (1 << 31) - 1


class ProtoSyntaxError(ValueError):
    """A .proto file is malformed."""


def parse(text: str, module: Any) -> Any:
    """Return the file's descriptor. Names of types stay as they are written.

    :param module: ``google.protobuf.descriptor_pb2``.
    :raises ProtoSyntaxError: The text is malformed.
    """
    return _Parser(_tokens(text), module).file()


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise ProtoSyntaxError(f"line {line} of the .proto file: {text[at : at + 20]!r}")
        if match.lastgroup != "space":
            found.append(match[0])
        at = match.end()
    return found


class _Parser:
    def __init__(self, tokens: list[str], module: Any) -> None:
        self._tokens = tokens
        self._at = 0
        self._module = module
        self._file = module.FileDescriptorProto()
        self._depth = 0

    # --- tokens ---

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            raise ProtoSyntaxError("the .proto file ends too early")
        self._at += 1
        return token

    def _accept(self, token: str) -> bool:
        if self._peek() == token:
            self._at += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if (found := self._next()) != token:
            around = " ".join(self._tokens[max(0, self._at - 6) : self._at])
            raise ProtoSyntaxError(f"expected {token!r}, not {found!r}, after: {around}")

    def _name(self, dotted: bool = False) -> str:
        token = self._next()
        if not re.fullmatch(r"\.?[A-Za-z_][\w.]*" if dotted else r"[A-Za-z_]\w*", token):
            raise ProtoSyntaxError(f"expected a name, not {token!r}")
        return token

    def _integer(self) -> int:
        is_negative = self._accept("-")
        token = self._next()
        try:
            is_octal = token.isdigit() and len(token) > 1 and token[0] == "0"
            value = int(token, 8) if is_octal else int(token, 0)
        except ValueError:
            raise ProtoSyntaxError(f"expected a number, not {token!r}") from None
        if value > _NUMBER_MAX:
            raise ProtoSyntaxError(f"the number {token[:50]} is too large")
        return -value if is_negative else value

    def _string(self) -> str:
        parts = []
        while self._peek()[:1] in ("'", '"'):
            token = self._next()
            try:
                parts.append(str(ast.literal_eval(token)))
            except (SyntaxError, ValueError):
                raise ProtoSyntaxError(f"this string is not valid: {token[:50]}") from None
        if not parts:
            raise ProtoSyntaxError(f"expected a string, not {self._peek()!r}")
        return "".join(parts)

    def _escaped_string(self) -> str:
        """Read a string without a change of its escapes: descriptors have bytes in this form."""
        parts = []
        while self._peek()[:1] in ("'", '"'):
            # the quotes of another kind of string
            parts.append(re.sub(r'(?<!\\)"', r'\\"', self._next()[1:-1]))
        return "".join(parts)

    # --- declarations ---

    def file(self) -> Any:
        """Read the whole file."""
        self._file.syntax = "proto2"
        while self._peek():
            word = self._next()
            if word in ("syntax", "edition"):
                self._syntax(word)
            elif word == "package":
                self._file.package = self._name(dotted=True)
                self._expect(";")
            elif word == "import":
                self._import()
            elif word == "service":
                self._service()
            elif word == "option":
                self._option(self._file.options)
                self._expect(";")
            elif not self._common(word, self._file, self._file.message_type):
                raise ProtoSyntaxError(f"unexpected {word!r} in the .proto file")
        if self._file.syntax == "proto2":
            self._file.ClearField("syntax")  # as in protoc's descriptors
        return self._file

    def _syntax(self, word: str) -> None:
        self._expect("=")
        value = self._string()
        self._expect(";")
        if word == "edition":
            number = self._module.Edition.items()
            found = dict(number).get(f"EDITION_{value}")
            if found is None:
                raise ProtoSyntaxError(f"unknown edition {value!r}")
            self._file.syntax, self._file.edition = "editions", found
        elif value not in ("proto2", "proto3"):
            raise ProtoSyntaxError(f"unknown syntax {value!r}")
        else:
            self._file.syntax = value

    def _import(self) -> None:
        number = len(self._file.dependency)
        if self._accept("public"):
            self._file.public_dependency.append(number)
        elif self._accept("weak"):
            self._file.weak_dependency.append(number)
        self._file.dependency.append(self._string())
        self._expect(";")

    def _common(self, word: str, owner: Any, messages: Any) -> bool:
        """Read what may stand in a file and in a message. Returns False if it is something else."""
        if word == "message":
            self._message(messages.add())
        elif word == "enum":
            self._enum(owner.enum_type.add())
        elif word == "extend":
            extendee = self._name(dotted=True)
            self._expect("{")
            while not self._accept("}"):
                each = owner.extension.add()
                each.extendee = extendee
                self._field(self._next(), each, messages)
        elif word != ";":
            return False
        return True

    def _message(self, message: Any) -> None:
        message.name = self._name()
        self._message_body(message)

    def _message_body(self, message: Any) -> None:
        self._depth += 1
        if self._depth > _NESTING_MAX:
            raise ProtoSyntaxError("the messages are nested too deeply")
        self._expect("{")
        while not self._accept("}"):
            word = self._next()
            follows_name = re.fullmatch(r"\.?[A-Za-z_][\w.]*", self._peek()) is not None
            if word == "option":
                self._option(message.options)
                self._expect(";")
            elif word == "oneof" and follows_name:
                self._oneof(message)
            elif word == "extensions":
                self._ranges(message.extension_range, 1)
            elif word == "reserved":
                self._reserved(message, 1)
            elif word in ("message", "enum", "extend", ";") and (follows_name or word == ";"):
                self._common(word, message, message.nested_type)
            elif word == "map" and self._peek() == "<":
                self._map(message, message.field.add())
            else:
                self._field(word, message.field.add(), message.nested_type)
        self._depth -= 1
        self._add_synthetic_oneofs(message)

    def _field(self, word: str, each: Any, messages: Any, is_in_oneof: bool = False) -> None:
        each.label = LABELS["optional"]
        if word in LABELS and not is_in_oneof:
            each.label = LABELS[word]
            if word == "optional" and self._file.syntax == "proto3":
                each.proto3_optional = True
            word = self._next()
        if word == "group":
            self._group(each, messages)
            return
        if word in SCALARS:
            each.type = SCALARS[word]
        elif re.fullmatch(r"\.?[A-Za-z_][\w.]*", word):
            each.type_name = word
        else:
            raise ProtoSyntaxError(f"expected a type, not {word!r}")
        self._end_of_field(each)

    def _group(self, each: Any, messages: Any) -> None:
        name = self._name()
        self._expect("=")
        each.name, each.number = name.lower(), self._integer()
        each.type, each.type_name = TYPE_GROUP, name
        self._bracketed_options(each)
        message = messages.add()
        message.name = name
        self._message_body(message)

    def _map(self, message: Any, each: Any) -> None:
        self._expect("<")
        key = self._name()
        self._expect(",")
        value = self._name(dotted=True)
        self._expect(">")
        if key not in SCALARS or key in ("double", "float", "bytes"):
            raise ProtoSyntaxError(f"{key} is no type for the key of a map")
        each.label = LABELS["repeated"]
        self._end_of_field(each)
        entry = message.nested_type.add()
        entry.name = "".join(
            part[:1].upper() + part[1:] for part in each.name.split("_")
        ) + "Entry"  # fmt: skip
        entry.options.map_entry = True
        each.type, each.type_name = TYPE_MESSAGE, entry.name
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            part = entry.field.add(name=name, number=number, label=LABELS["optional"])
            if kind in SCALARS:
                part.type = SCALARS[kind]
            else:
                part.type_name = kind

    def _end_of_field(self, each: Any) -> None:
        each.name = self._name()
        self._expect("=")
        number = self._integer()
        if not 0 < number <= FIELD_NUMBER_MAX:
            raise ProtoSyntaxError(f"{each.name}: {number} is no field number")
        each.number = number
        self._bracketed_options(each)
        self._expect(";")

    def _bracketed_options(self, each: Any) -> None:
        if not self._accept("["):
            return
        while True:
            if self._peek() in ("default", "json_name") and hasattr(each, "json_name"):
                key = self._next()
                self._expect("=")
                is_text = self._peek()[:1] in ("'", '"')
                if is_text and key == "default" and each.type == SCALARS["bytes"]:
                    value = self._escaped_string()
                else:
                    value = self._string() if is_text else self._constant()
                setattr(each, "default_value" if key == "default" else key, value)
            else:
                self._option(each.options)
            if not self._accept(","):
                break
        self._expect("]")

    def _oneof(self, message: Any) -> None:
        number = len(message.oneof_decl)
        oneof = message.oneof_decl.add()
        oneof.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            word = self._next()
            if word == "option":
                self._option(oneof.options)
                self._expect(";")
            elif word != ";":
                each = message.field.add()
                self._field(word, each, message.nested_type, is_in_oneof=True)
                each.oneof_index = number
        if not any(
            each.HasField("oneof_index") and each.oneof_index == number for each in message.field
        ):
            raise ProtoSyntaxError(f"the oneof {oneof.name} has no field")

    def _add_synthetic_oneofs(self, message: Any) -> None:
        for each in message.field:
            if each.proto3_optional:
                each.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add().name = f"_{each.name}"

    def _ranges(self, ranges: Any, past_end: int) -> None:
        added = []
        while True:
            start = end = self._integer()
            if self._accept("to"):
                is_max = self._accept("max")
                end = (FIELD_NUMBER_MAX if past_end else _NUMBER_MAX) if is_max else self._integer()
            if past_end and max(start, end) > FIELD_NUMBER_MAX:
                raise ProtoSyntaxError(f"{max(start, end)} is no field number")
            added.append(ranges.add(start=start, end=end + past_end))
            if not self._accept(","):
                break
        if self._accept("["):
            depth = 1
            while depth:  # options of extension ranges say nothing about data
                depth += {"[": 1, "]": -1}.get(self._next(), 0)
        self._expect(";")

    def _reserved(self, owner: Any, past_end: int) -> None:
        if re.match(r"-|\d", self._peek()):
            self._ranges(owner.reserved_range, past_end)
            return
        while True:
            is_text = self._peek()[:1] in ("'", '"')
            owner.reserved_name.append(self._string() if is_text else self._name())
            if not self._accept(","):
                break
        self._expect(";")

    def _enum(self, enum: Any) -> None:
        enum.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            word = self._next()
            if word == "option" and self._peek() != "=":
                self._option(enum.options)
                self._expect(";")
            elif word == "reserved" and self._peek() != "=":
                self._reserved(enum, 0)
            elif word != ";":
                value = enum.value.add(name=word)
                self._expect("=")
                value.number = self._integer()
                self._bracketed_options(value)
                self._expect(";")

    def _service(self) -> None:
        service = self._file.service.add()
        service.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            word = self._next()
            if word == "option":
                self._option(service.options)
                self._expect(";")
            elif word == "rpc":
                self._method(service.method.add())
            elif word != ";":
                raise ProtoSyntaxError(f"unexpected {word!r} in a service")

    def _method(self, method: Any) -> None:
        method.name = self._name()
        for direction in ("input", "output"):
            self._expect("(")
            if self._accept("stream"):
                name = "client_streaming" if direction == "input" else "server_streaming"
                setattr(method, name, True)
            setattr(method, f"{direction}_type", self._name(dotted=True))
            self._expect(")")
            if direction == "input":
                self._expect("returns")
        if self._accept(";"):
            return
        self._expect("{")
        while not self._accept("}"):
            if self._next() == "option":
                self._option(method.options)
                self._expect(";")

    # --- options ---

    def _option(self, options: Any) -> None:
        parts = self._option_name()
        self._expect("=")
        if self._peek() == "{":
            value, is_text = self._aggregate(), False
        else:
            is_text = self._peek()[:1] in ("'", '"')
            value = self._string() if is_text else self._constant()
        if not self._set(options, parts, value):
            self._keep(options, parts, value, is_text)

    def _option_name(self) -> list[tuple[str, bool]]:
        """Read the parts of a name. The second value says whether a part is in parentheses."""
        parts: list[tuple[str, bool]] = []
        while True:
            if self._accept("("):
                parts.append((self._name(dotted=True), True))
                self._expect(")")
            else:
                name = self._name(dotted=True)
                if name.startswith(".") != (bool(parts) and self._tokens[self._at - 2] != "."):
                    raise ProtoSyntaxError(f"the name of an option can't have {name!r} here")
                parts += [(each, False) for each in name.removeprefix(".").split(".")]
            if not self._accept(".") and not self._peek().startswith("."):
                return parts

    def _set(self, options: Any, parts: list[tuple[str, bool]], value: str) -> bool:
        """Set an option that protobuf itself declares."""
        target = options
        for number, (name, is_extension) in enumerate(parts):
            known = None if is_extension else target.DESCRIPTOR.fields_by_name.get(name)
            if known is None:
                return False
            if number < len(parts) - 1:
                if known.message_type is None:
                    return False
                target = getattr(target, name)
        try:
            if known is None or known.message_type is not None or _is_repeated(known):
                return False
            if known.enum_type is not None:
                setattr(target, name, known.enum_type.values_by_name[value].number)
            elif known.cpp_type == known.CPPTYPE_BOOL:
                setattr(target, name, {"true": True, "false": False}[value])
            else:
                is_string = known.cpp_type == known.CPPTYPE_STRING
                setattr(target, name, value if is_string else int(value))
        except (KeyError, TypeError, ValueError):
            raise ProtoSyntaxError(f"option {name}: {value!r} is not valid") from None
        return True

    def _keep(self, options: Any, parts: list[tuple[str, bool]], value: str, is_text: bool) -> None:
        """Keep an option of others as it is written."""
        kept = options.uninterpreted_option.add()
        for name, is_extension in parts:
            kept.name.add(name_part=name, is_extension=is_extension)
        if is_text:
            kept.string_value = value.encode()
        elif value.startswith("{"):
            kept.aggregate_value = value[1:-1].strip()
        else:
            kept.identifier_value = value

    def _constant(self) -> str:
        sign = "-" if self._accept("-") else ""
        self._accept("+")
        token = self._next()
        if not re.match(r"[\w.]", token):
            raise ProtoSyntaxError(f"expected a value, not {token!r}")
        return sign + token

    def _aggregate(self) -> str:
        tokens, depth = [], 0
        while True:
            token = self._next()
            tokens.append(token)
            depth += {"{": 1, "}": -1}.get(token, 0)
            if not depth:
                return " ".join(tokens)


def _is_repeated(known: Any) -> bool:
    # Older and newer versions of protobuf have one of these.
    return bool(known.is_repeated if hasattr(known, "is_repeated") else known.label == 3)
