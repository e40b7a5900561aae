"""The operator's own metrics."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

PASSES = Counter("forebay_reconcile_total", "Passes over one resource, by how they ended.", ["outcome"])
PASS_SECONDS = Histogram("forebay_reconcile_seconds", "How long one pass takes.")
PENDING = Gauge("forebay_reconcile_pending", "Resources that wait for a pass or are in one.")
REQUESTS = Counter("forebay_api_requests_total", "Requests to the API server.", ["verb"])
LEADING = Gauge("forebay_leading", "1 while this operator has the lease, and is the one at work.")
