"""The only door to Kubernetes: `LiveCluster` observes, applies, prunes and writes status."""

from forebay_operator.cluster.api import Api
from forebay_operator.cluster.live import LiveCluster

__all__ = ["Api", "LiveCluster"]
