"""The settings of the documentation site. `make docs` builds it; scripts/build_docs.py prepares the pages."""

from __future__ import annotations

from sabir import __version__

project = "Sabir"
author = "The Sabir team"
version = release = __version__
copyright = "the Sabir team, Apache-2.0"  # the name that Sphinx gives it

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
nitpicky = False
suppress_warnings = [
    "misc.highlighting_failure",  # blocks with an ellipsis are not quite JSON or Python
    "ref.python",  # a name that two packages export is found twice
]

myst_heading_anchors = 4  # the anchors that GitHub makes, so that one link works in both places
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
maximum_signature_line_length = 90

html_theme = "furo"
html_title = "Sabir"
html_favicon = html_logo = "../../src/sabir/web/icon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
