#pragma once

#include "base/metrics.h"
#include "control/messages.h"

namespace farpage {

// A node's metrics (docs/metrics.md), which are what it tells as its status.
void describe(const StatusReply& status, MetricVisitor& visitor);

}  // namespace farpage
