#pragma once

#include <map>
#include <set>
#include <string>

#include "base/metrics.h"

namespace farpage {

// A component's metrics: `name{label=value}` and the number.
class RecordedMetrics final : public MetricVisitor {
 public:
  void family(std::string_view name, std::string_view help, MetricKind kind) override {
    name_ = name;
    kinds[name_] = kind;
    if (help.empty()) without_help.insert(name_);
  }
  void value(MetricLabels labels, double value) override { values[sample(labels)] = value; }
  void histogram(MetricLabels labels, const DurationHistogram& durations) override {
    values[sample(labels)] = static_cast<double>(durations.count());
  }

  std::map<std::string, MetricKind> kinds;
  std::map<std::string, double> values;  // of a histogram: its count
  std::set<std::string> without_help;

 private:
  std::string sample(MetricLabels labels) const {
    std::string text = name_;
    for (const MetricLabel& label : labels) {
      text += "{" + std::string(label.name) + "=" + std::string(label.value) + "}";
    }
    return text;
  }

  std::string name_;
};

}  // namespace farpage
