"""Whether pages that are there are worth loading: the engine may compute them sooner."""

from __future__ import annotations

import threading

from farpage.engines.figures import Figures

KEPT = 0.9  # the weight of a measurement after one more of its kind
EXPLORE_EVERY = 16  # of the prefixes that seem cheaper to compute, one in so many is loaded
SOONER = 4  # a load that takes so much less time than expected shows that the node is well again
SHORT = 8  # a prompt so much shorter than the mean of others tells nothing of a token's time


class Line:
    """Seconds as a constant and a part for each unit: least squares over what was measured, the
    newest with the most weight."""

    def __init__(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    def measure(self, units: float, seconds: float) -> None:
        for name, value in (("_weight", 1.0), ("_x", units), ("_y", seconds), ("_xx", units * units), ("_xy", units * seconds)):
            setattr(self, name, KEPT * getattr(self, name) + value)

    @property
    def mean_units(self) -> float:
        return self._x / self._weight if self._weight > 0 else 0.0

    def fit(self) -> tuple[float, float] | None:
        """(seconds, seconds a unit), neither below 0. None: nothing was measured yet."""
        if self._x <= 0:
            return None
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        spread = self._xx / self._weight - mean_x * mean_x
        each = (self._xy / self._weight - mean_x * mean_y) / spread if spread > 1e-6 * mean_x * mean_x else mean_y / mean_x
        each = min(max(each, 0.0), mean_y / mean_x)  # a constant below 0 would come out beyond
        return mean_y - each * mean_x, each


class Worth:
    """Tokens at the engine's prefill rate against bytes at the measured speed of loads.

    `tokens_per_s`: the engine's prefill rate; 0: as `prefilled()` measures it. While one of the two
    sides is not known, everything is loaded. So that a bad estimate of loads heals, one in
    EXPLORE_EVERY of the prefixes that seem cheaper to compute is loaded all the same. Without
    `is_on` everything is loaded, and the estimates only tell how much comes in time. Any thread may
    call it.
    """

    def __init__(self, figures: Figures, *, is_on: bool, tokens_per_s: float = 0.0) -> None:
        self.is_on = is_on
        self._figures, self._tokens_per_s = figures, tokens_per_s
        self._lock = threading.Lock()
        self._loads, self._prefills = Line(), Line()
        self._passed_over = 0

    def loaded(self, length: int, tokens: float, seconds: float) -> None:
        """A load that has ended: what came, in bytes and in tokens, and how long it took."""
        expected_s = self.load_s(length)
        with self._lock:
            if length > 0 and expected_s is not None and seconds * SOONER < expected_s:
                self._loads = Line()
            self._loads.measure(length, seconds)
        recompute_s = self.recompute_s(tokens)
        if recompute_s is not None:
            self._figures.add("saved_seconds", value=recompute_s - seconds)

    def prefilled(self, tokens: float, seconds: float) -> None:
        """The engine has computed a prompt's tokens. After a hit those are few."""
        with self._lock:
            if tokens * SHORT >= self._prefills.mean_units:
                self._prefills.measure(tokens, seconds)

    def load_s(self, length: float) -> float | None:
        with self._lock:
            fit = self._loads.fit()
        return None if fit is None else fit[0] + length * fit[1]

    def recompute_s(self, tokens: float) -> float | None:
        """What these tokens add to a step of the engine's, which it takes anyway."""
        with self._lock:
            fit = (0.0, 1 / self._tokens_per_s) if self._tokens_per_s > 0 else self._prefills.fit()
        return None if fit is None else tokens * fit[1]

    def bytes_within(self, seconds: float) -> float:
        """How much one load brings in that time, as far as is known."""
        with self._lock:
            fit = self._loads.fit()
        return float("inf") if fit is None or fit[1] <= 0 else max(0.0, seconds - fit[0]) / fit[1]

    def is_worth(self, tokens: float, length: float) -> bool:
        """Whether to load so many tokens of so many bytes: decided, and counted."""
        if not self.is_on:
            return True
        load_s, recompute_s = self.load_s(length), self.recompute_s(tokens)
        decision = "load"
        if load_s is not None and recompute_s is not None and load_s > recompute_s:
            with self._lock:
                self._passed_over += 1
                decision = "recompute" if self._passed_over % EXPLORE_EVERY else "explore"
        self._figures.add("decisions", decision)
        return decision != "recompute"
