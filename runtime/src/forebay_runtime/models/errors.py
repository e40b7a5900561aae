"""Why a model can't be served. Each has one line for the operator's condition and for the person at the terminal."""

from __future__ import annotations


class ModelError(Exception):
    """The model, or what was asked for it, is at fault; trying again changes nothing. The message is one line."""


class WeightsNotFound(ModelError):
    """The path doesn't exist, or holds neither safetensors nor a GGUF file, or no config.json."""


class BrokenWeights(ModelError):
    """A file is cut off or damaged, or a tensor is missing or has a shape that the config doesn't allow."""


class UnsupportedModel(ModelError):
    """An architecture, or a setting of it, that this runtime doesn't compute."""


class UnsupportedTensorType(ModelError):
    """A GGUF tensor type that this runtime doesn't read."""


class DeviceNotFound(ModelError):
    """`--device cuda` where torch sees none."""


class ContextTooLong(ModelError):
    """The context asked for is longer than the model's own."""


class KernelsNotFound(ModelError):
    """The native kernels are asked for and can't serve."""
