"""The version, said once: the build reads it from here, and so does `headgate --version`."""

__version__ = "0.1.0"
