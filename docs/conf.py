"""How the pages become a site: plain Markdown in, HTML out, every broken reference an error."""

project = "Headgate"
author = "Headgate contributors"
copyright = "2026, Headgate contributors"

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
# `[text](page.md#a-heading)` works as it does on a code host, and is checked.
myst_heading_anchors = 4

html_theme = "furo"
html_title = "Headgate"
html_show_sourcelink = False
html_copy_source = False
