"""Figures among the metrics that an engine's own process shows to Prometheus."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from farpage.engines.figures import BUCKETS_S, METRICS, Metric, Publish

_lock = threading.Lock()
_made: dict[str, Any] = {}  # by name: a process has each metric once, however many adapters it has


def publisher(engine: str) -> Publish | None:
    """What shows figures as `farpage_engine_…{engine="…"}` in prometheus_client's own registry.
    None: the engine's environment has no prometheus_client."""
    try:
        library: Any = importlib.import_module("prometheus_client")
    except ImportError:
        return None
    with _lock:
        for name, metric in METRICS.items():
            if name not in _made:
                _made[name] = _make(library, name, metric)

    def publish(name: str, metric: Metric, label: str, value: float) -> None:
        series = _made[name].labels(engine, *([label] if metric.label else []))
        if metric.kind == "counter":
            series.inc(value)
        elif metric.kind == "gauge":
            series.set(value)
        else:
            series.observe(value)

    return publish


def _make(library: Any, name: str, metric: Metric) -> Any:
    labels = ["engine", *([metric.label] if metric.label else [])]
    if metric.kind == "histogram":
        return library.Histogram(f"farpage_engine_{name}", metric.documentation, labels, buckets=BUCKETS_S)
    kind = library.Counter if metric.kind == "counter" else library.Gauge
    return kind(f"farpage_engine_{name}", metric.documentation, labels)
