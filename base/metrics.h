#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace farpage {

// A count that one thread advances and any thread reads; a load and a store, no locked instruction.
class Counter {
 public:
  void add(uint64_t amount = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void raise_to(uint64_t value) {
    if (value > value_.load(std::memory_order_relaxed)) {
      value_.store(value, std::memory_order_relaxed);
    }
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
};

// How long things took, written and read like a Counter. The buckets are fixed: 1.024 µs and its
// doubles up to 8.6 s, each with what took as long or less and more than the one before; the last
// has the rest.
class DurationHistogram {
 public:
  static constexpr size_t kBounds = 24;
  static constexpr uint64_t bound_ns(size_t bucket) { return uint64_t{1024} << bucket; }

  void add(uint64_t duration_ns, uint64_t times = 1) {
    add_to(bucket_of(duration_ns), duration_ns, times);
  }
  // To the bucket that the duration is of.
  void add_to(size_t bucket, uint64_t duration_ns, uint64_t times = 1) {
    buckets_[bucket].add(times);
    sum_ns_.add(times * duration_ns);
  }
  static size_t bucket_of(uint64_t duration_ns) {
    constexpr int kFirstBits = 10;
    const uint64_t above = (duration_ns - (duration_ns > 0 ? 1 : 0)) >> kFirstBits;
    return std::min<size_t>(static_cast<size_t>(std::bit_width(above)), kBounds);
  }
  void add(const DurationHistogram& other) {
    for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i].add(other.buckets_[i].value());
    sum_ns_.add(other.sum_ns());
  }

  // In this bucket alone; the last, kBounds, has no bound.
  uint64_t bucket(size_t bucket) const { return buckets_[bucket].value(); }
  uint64_t sum_ns() const { return sum_ns_.value(); }
  uint64_t count() const {
    uint64_t count = 0;
    for (const Counter& bucket : buckets_) count += bucket.value();
    return count;
  }

 private:
  std::array<Counter, kBounds + 1> buckets_;
  Counter sum_ns_;
};

struct MetricLabel {
  std::string_view name;
  std::string_view value;
};
using MetricLabels = std::initializer_list<MetricLabel>;

enum class MetricKind : uint8_t { kCounter, kGauge, kHistogram };

// Components report their values to it, at each look (docs/metrics.md): a family, and then the
// values that belong to it, each with labels of its own. Names, with their units, are those of
// Prometheus.
class MetricVisitor {
 public:
  virtual ~MetricVisitor() = default;

  // `help` is a sentence for people.
  virtual void family(std::string_view name, std::string_view help, MetricKind kind) = 0;
  virtual void value(MetricLabels labels, double value) = 0;
  virtual void histogram(MetricLabels labels, const DurationHistogram& durations) = 0;

  void counter(std::string_view name, std::string_view help, double total) {
    family(name, help, MetricKind::kCounter);
    value({}, total);
  }
  void gauge(std::string_view name, std::string_view help, double now) {
    family(name, help, MetricKind::kGauge);
    value({}, now);
  }
};

}  // namespace farpage
