#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "control/messages.h"

namespace farpage {

// A node's status, and what it was at an earlier look, if there was one, for what happens in a
// second.
struct StatusReport {
  StatusReply now;
  const StatusReply* before = nullptr;

  // 0 if the earlier look was at another run of the node, or there was none.
  double seconds() const;
  double per_second(uint64_t was, uint64_t is) const;
};

std::string status_text(const StatusReport& report);
boost::json::object status_json(const StatusReport& report);

}  // namespace farpage
