#include "metrics/metrics_server.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

#include "metrics/http_server.h"

namespace farpage {
namespace {

constexpr const char* kPath = "/metrics";

prometheus::MetricType type_of(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return prometheus::MetricType::Counter;
    case MetricKind::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

class FamilyVisitor final : public MetricVisitor {
 public:
  void family(std::string_view name, std::string_view help, MetricKind kind) override {
    families_.push_back({std::string(name), std::string(help), type_of(kind), {}});
  }

  void value(MetricLabels labels, double value) override {
    prometheus::ClientMetric& metric = add(labels);
    metric.counter.value = value;
    metric.gauge.value = value;
  }

  void histogram(MetricLabels labels, const DurationHistogram& durations) override {
    auto& to = add(labels).histogram;
    uint64_t count = 0;
    for (size_t i = 0; i < DurationHistogram::kBounds; ++i) {
      count += durations.bucket(i);
      to.bucket.push_back({count, static_cast<double>(DurationHistogram::bound_ns(i)) / 1e9});
    }
    // The bucket without a bound is the count, which the text tells by itself.
    to.sample_count = count + durations.bucket(DurationHistogram::kBounds);
    to.sample_sum = static_cast<double>(durations.sum_ns()) / 1e9;
  }

  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& add(MetricLabels labels) {
    prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
    for (const MetricLabel& label : labels) {
      metric.label.push_back({std::string(label.name), std::string(label.value)});
    }
    return metric;
  }

  std::vector<prometheus::MetricFamily> families_;
};

// The text format that Prometheus reads.
HttpResponse look(const std::function<void(MetricVisitor&)>& describe, const std::string& path) {
  if (path != kPath) return {404, "text/plain", fmt::format("metrics are at {}\n", kPath)};
  FamilyVisitor visitor;
  describe(visitor);
  return {200, "text/plain; version=0.0.4; charset=utf-8",
          prometheus::TextSerializer().Serialize(visitor.take())};
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(
    ListeningSocket socket, std::function<void(MetricVisitor&)> describe) {
  std::string url = fmt::format("http://{}{}", format_host_port(socket.address), kPath);
  auto server = HttpServer::start(
      std::move(socket.fd),
      [describe = std::move(describe)](const std::string& path) { return look(describe, path); });
  if (!server) return tl::unexpected(server.error());
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(*server), std::move(url)));
}

MetricsServer::MetricsServer(std::unique_ptr<HttpServer> http, std::string url)
    : http_(std::move(http)), url_(std::move(url)) {}

MetricsServer::~MetricsServer() = default;

}  // namespace farpage
