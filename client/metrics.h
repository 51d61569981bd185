#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "metrics/metrics_server.h"

namespace farpage {

// Whether this can be an address; empty is none, and good.
Result<void> check_metrics(const std::string& listen, const std::string& setting);

// Takes the address that the configuration says; none where it says nothing.
Result<std::optional<ListeningSocket>> open_metrics(const std::string& listen,
                                                    const std::string& setting);

// Shows metrics there; null without an address.
Result<std::unique_ptr<MetricsServer>> serve_metrics(std::optional<ListeningSocket> socket,
                                                     std::function<void(MetricVisitor&)> describe);

}  // namespace farpage
