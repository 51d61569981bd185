#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <cstdint>

#include "integrity/recovery.h"

namespace farpage {

// {"ready", "recompute", "recompute_by_reason"}. `by_reason`: pages, by Reason; the first of them
// is passed over.
inline boost::json::object verdicts_json(uint64_t ready,
                                         const std::array<uint64_t, kReasons>& by_reason) {
  boost::json::object reasons;
  uint64_t recompute = 0;
  for (size_t i = 1; i < by_reason.size(); ++i) {
    recompute += by_reason[i];
    reasons[reason_name(static_cast<Reason>(i))] = by_reason[i];
  }
  return {{"ready", ready}, {"recompute", recompute}, {"recompute_by_reason", reasons}};
}

}  // namespace farpage
