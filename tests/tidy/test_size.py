"""Files and functions are short enough to read."""

from __future__ import annotations

from tests.tidy import tree

FILE_LINES = 1200
FUNCTION_LINES = 70

# Tables with one row a line. A table is data, so its length doesn't matter.
TABLES = ("kafka_native/_reference/",)


def test_files_are_short() -> None:
    counts = {path: len(tree.text_of(path).splitlines()) for path in tree.sources()}
    assert not [
        f"{path}: {count} lines"
        for path, count in counts.items()
        if count > FILE_LINES and not path.as_posix().startswith(TABLES)
    ]


def test_functions_are_short() -> None:
    every = [
        one
        for path in tree.sources(".c", ".h", ".cpp", ".py", ".pyx")
        for one in tree.functions(path)
    ]
    assert len(every) > 500, "the scan lost its functions"
    assert not [
        f"{one.where} {one.name}: {one.line_count} lines"
        for one in every
        if one.line_count > FUNCTION_LINES
    ]


def test_c_scan_finds_functions_and_nothing_else() -> None:
    text = "\n".join(
        [
            "struct a { int x; };",
            'static const char *t[] = { "}", "{" };',
            "#define F(x) do { \\",
            "    x; } while (0)",
            "int one(void) { return '{'; } /* { */",
            "static int",
            "two(int a,",
            "    int b)",
            "{",
            "    if (a) { return b; }",
            "    return 0;",
            "}",
        ]
    )
    assert list(tree.c_functions(text, "f")) == [
        tree.Function("f:5", "one", 1),
        tree.Function("f:6", "two", 7),
    ]


def test_python_scan_leaves_docstrings_out() -> None:
    text = 'def f():\n    """One\n\n    two.\n    """\n    return 1\n'
    assert list(tree.python_functions(text, "f")) == [tree.Function("f:1", "f", 2)]


def test_cython_scan_finds_every_kind_of_function() -> None:
    lines = [
        "cdef class A:",
        "    cdef int x",
        "    cdef int get(self) noexcept nogil:",
        '        """Doc',
        '        """',
        "        return self.x",
        "",
        "    def put(",
        "        self,",
        "    ):",
        "        pass",
        "cdef int declared(int a)",
        "cdef int y = f(1)",
    ]
    found = [(one.name, one.line_count) for one in tree.cython_functions("\n".join(lines), "f")]
    assert found == [("get", 2), ("put", 4)]
