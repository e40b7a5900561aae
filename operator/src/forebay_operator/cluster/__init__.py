"""The only door to Kubernetes: `LiveCluster` observes, applies, prunes and writes status."""

from forebay_operator.cluster.access import Access, AccessError, access
from forebay_operator.cluster.api import Api
from forebay_operator.cluster.cache import Cache
from forebay_operator.cluster.kept import About, Weight
from forebay_operator.cluster.lease import LeaseHolder
from forebay_operator.cluster.live import LiveCluster

__all__ = ["About", "Access", "AccessError", "Api", "Cache", "LeaseHolder", "LiveCluster", "Weight", "access"]
