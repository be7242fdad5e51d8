"""How much chance these tests take."""

from hypothesis import settings

# A busy machine is slow without being wrong, so an example may take as long as it takes.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")
