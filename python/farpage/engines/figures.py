"""What an adapter did, in figures: for the engine's own metrics, for its status, and for what its
process shows to Prometheus."""

from __future__ import annotations

import collections
import dataclasses
import importlib
import threading
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Metric:
    kind: str  # counter, gauge or histogram
    label: str  # "": it has none
    documentation: str


METRICS = {
    "pages": Metric("counter", "result", "Pages by what became of them: ready, stored, found, or the reason why not (docs/engines.md)."),
    "bytes": Metric("counter", "direction", "Bytes of the pages that were loaded or stored."),
    "seconds": Metric("histogram", "operation", "From the start of a lookup, load or store of several pages to its last answer, in seconds."),
    "stalls": Metric("counter", "operation", "Lookups, loads and stores in which a page had no answer by the deadline, or no node could be reached."),
    "decisions": Metric("counter", "decision", "Prefixes that the cost model had loaded, recomputed, or loaded to measure anew."),
    "saved_seconds": Metric("gauge", "", "Time that the loaded tokens would have taken to compute, less the time of all loads, since the start, in seconds."),
}
BUCKETS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

Publish = Callable[[str, Metric, str, float], None]  # name, metric, label's value, and the value

_lock = threading.Lock()
_made: dict[str, Any] = {}  # by name: a process has each metric once, however many adapters it has


class Figures:
    """Totals since the start, each also passed on to `publish` as it comes: an increase of a
    counter, a new value of a gauge, one observation of a histogram. Any thread may call it."""

    def __init__(self, publish: Publish | None = None) -> None:
        self._publish, self._lock = publish, threading.Lock()
        self._totals: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in METRICS}

    def add(self, name: str, label: str = "", value: float = 1) -> None:
        """To a counter or a gauge, or an observation to a histogram."""
        metric = METRICS[name]
        if metric.kind == "counter" and not value:
            return
        with self._lock:
            self._totals[name][label] += value  # type: ignore[assignment]
            now = self._totals[name][label] if metric.kind == "gauge" else value
            if self._publish is not None:
                self._publish(name, metric, label, now)

    def of(self, name: str) -> collections.Counter[str]:
        """By label: totals, or of a histogram the sums."""
        with self._lock:
            return self._totals[name].copy()

    def status(self) -> dict[str, dict[str, Any]]:
        return {name: dict(self.of(name)) for name in METRICS}


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
