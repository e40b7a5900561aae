"""The InferenceService as pydantic models, the one source of the CRD's schema (crd.py): a module a part. No I/O."""

from forebay_operator.resource.inference_service import InferenceService, parse
from forebay_operator.resource.spec import InvalidSpec, Spec
from forebay_operator.resource.status import Condition, Scale, Status

__all__ = ["Condition", "InferenceService", "InvalidSpec", "Scale", "Spec", "Status", "parse"]
