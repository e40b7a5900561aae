"""For every test."""

from hypothesis import settings

# A slow example says something of the machine's load and nothing of the code.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
