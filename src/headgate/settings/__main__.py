"""Writes the reference page: python -m headgate.settings > docs/reference/settings.md"""

import sys

from .reference import reference_markdown

sys.stdout.write(reference_markdown())
