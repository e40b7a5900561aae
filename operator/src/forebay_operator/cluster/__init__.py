"""The only door to Kubernetes: `LiveCluster` observes, applies, prunes and writes status."""

from forebay_operator.cluster.access import AccessError, api_server
from forebay_operator.cluster.api import Api
from forebay_operator.cluster.cache import About, Cache
from forebay_operator.cluster.lease import LeaseHolder
from forebay_operator.cluster.live import LiveCluster

__all__ = ["About", "AccessError", "Api", "Cache", "LeaseHolder", "LiveCluster", "api_server"]
