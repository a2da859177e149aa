"""How Sphinx makes the pages: python3 scripts/docs.py calls it, on a copy of the sources, offline."""

import os
import re
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")

import fastldp

project = "fastldp"
author = copyright = "The fastldp developers"
version = release = fastldp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
default_role = "literal"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "capture_repr": (),  # what is printed is shown, and no more
    "copyfile_regex": r".*\.(rst|toml)",
}

html_theme = "furo"
html_title = f"fastldp {release}"
html_copy_source = False
html_show_sourcelink = False


def plain(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written for a prompt, where |x| and x* are what they are: their marks are no markup."""
    example = False
    for k, line in enumerate(lines):
        # An example ends with the next empty line.
        example = line.strip() != "" and (example or line.lstrip().startswith(">>>"))
        if not example:
            parts = re.split(r"(`+[^`]*`+)", line)
            parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
            lines[k] = "".join(parts)


def of_others(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """What estimators inherit from scikit-learn is explained there, with references to its own pages."""
    module = getattr(getattr(thing, "fget", thing), "__module__", None) or ""
    return True if module.split(".")[0] == "sklearn" else None


def setup(app: Any) -> None:
    """Before numpydoc reads the docstrings."""
    app.connect("autodoc-process-docstring", plain, priority=100)
    app.connect("autodoc-skip-member", of_others)
