"""Decoders: from files to a callable that maps a step's tokens to logits."""

from forebay_runtime.models.errors import ModelError
from forebay_runtime.models.loader import LoadedModel, load

__all__ = ["LoadedModel", "ModelError", "load"]
