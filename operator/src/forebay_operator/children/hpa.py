"""The HorizontalPodAutoscaler: it scales the resource itself, by metrics that the adapter serves about it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from forebay_operator.api_names import API_VERSION, KIND
from forebay_operator.children.metadata import child
from forebay_operator.observed import Manifest
from forebay_operator.resource import InferenceService
from forebay_operator.resource.scaling import Behavior, Scaling, ScalingRules

QUEUE_DEPTH, TTFT_P95 = "queue_depth", "ttft_p95_ms"
DEFAULT_UP: dict[str, Any] = {"stabilizationWindowSeconds": 0}
DEFAULT_DOWN: dict[str, Any] = {"stabilizationWindowSeconds": 60}


def hpa(resource: InferenceService, scaling: Scaling) -> Manifest:
    target = {"apiVersion": API_VERSION, "kind": KIND, "name": resource.name}
    metrics = []
    if (depth := scaling.targets.queue_depth) is not None:
        metrics.append(_metric(target, QUEUE_DEPTH, {"type": "AverageValue", "averageValue": str(depth)}))
    if (ttft := scaling.targets.ttft_p95) is not None:
        metrics.append(_metric(target, TTFT_P95, {"type": "Value", "value": milliseconds(ttft)}))
    spec = {
        "scaleTargetRef": target,
        "minReplicas": scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
        "metrics": metrics,
        "behavior": _behavior(scaling.behavior or Behavior()),
    }
    return child("HorizontalPodAutoscaler", resource, spec=spec)


def milliseconds(duration: str) -> str:
    """500ms, 1.5s -> the number of milliseconds as a quantity: 500, 1500."""
    seconds = duration.endswith("s") and not duration.endswith("ms")
    number = Decimal(duration.removesuffix("s").removesuffix("m")) * (1000 if seconds else 1)
    whole = int(number)
    return str(whole) if number == whole else f"{int(number * 1000)}m"


def _metric(described: dict[str, str], name: str, target: dict[str, str]) -> dict[str, Any]:
    return {"type": "Object", "object": {"describedObject": described, "metric": {"name": name}, "target": target}}


def _behavior(behavior: Behavior) -> dict[str, Any]:
    return {
        "scaleUp": DEFAULT_UP | _rules(behavior.scale_up),
        "scaleDown": DEFAULT_DOWN | _rules(behavior.scale_down),
    }


def _rules(rules: ScalingRules | None) -> dict[str, Any]:
    return rules.model_dump(by_alias=True, exclude_none=True) if rules else {}
