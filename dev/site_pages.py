"""Hooks of mkdocs: files beside docs/ that the docs link to become pages of the site.

Markdown stays as it is, and other files become a block of code. So links such as
``../../examples/arrow.py`` work on the site as they do in the repository.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
LANGUAGES = {".py": "python", ".sh": "sh", ".toml": "toml"}


def target_of(link: str, source: str) -> str | None:
    """The file that a link of a page means, below the root of the repository.

    :param source: The page's file below docs/, or below the root for a file beside docs/.
    :return: None for a link to another site.
    """
    if ":" in link.split("/")[0] or link.startswith("/"):
        return None
    folder = posixpath.dirname(place_of(source))
    return posixpath.normpath(posixpath.join(folder, link))


def place_of(source: str) -> str:
    """Where a page's text lies below the root."""
    below_docs = f"docs/{source}"
    if (ROOT / below_docs).is_file():
        return below_docs
    return source if (ROOT / source).is_file() else source.removesuffix(".md")


def page_of(path: str) -> str:
    """The page's source path on the site for a file below the root."""
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path.endswith(".md") else f"{path}.md"


def text_of(path: str) -> str:
    """The Markdown of a page for a file beside docs/."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    language = LANGUAGES.get(Path(path).suffix, "")
    return f"# {posixpath.basename(path)}\n\n````{language}\n{text}````\n"


def linked(text: str, source: str) -> list[str]:
    """The files beside docs/ that a page links to."""
    found = (target_of(match["target"], source) for match in LINK.finditer(text))
    return [path for path in found if path and not path.startswith("docs/") and is_shown(path)]


def is_shown(path: str) -> bool:
    """Whether a file or folder can be a page: it has text, and lies in the repository."""
    full = ROOT / path
    if path.startswith("..") or not full.exists():
        return False
    return (full / "README.md").is_file() if full.is_dir() else True


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of files beside docs/, and of those that these link to."""
    from mkdocs.structure.files import File

    waiting = list(ALWAYS)
    for file in files.documentation_pages():
        waiting += linked(file.content_string, file.src_uri)
    while waiting:
        page = page_of(waiting.pop())
        if files.get_file_from_path(page) is None:
            text = text_of(place_of(page))
            files.append(File.generated(config, page, content=text))
            waiting += linked(text, page)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files beside docs/ at their pages."""
    source = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        path = target_of(match["target"], source)
        if path is None or not (path.startswith("docs/") or is_shown(path)):
            return match[0]
        target = os.path.relpath(page_of(path), posixpath.dirname(source) or ".")
        return target + (match["anchor"] or "")

    return LINK.sub(moved, markdown)
