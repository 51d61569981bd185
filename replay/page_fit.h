#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "base/status.h"
#include "base/units.h"
#include "pagetable/geometry.h"
#include "replay/page_content.h"
#include "tier/client.h"

namespace farpage {

// Whether a bench can tell pages of this length from each other, and a node can hold them.
inline Result<void> check_page_bytes(uint64_t page_bytes) {
  if (page_bytes >= kMinContentBytes && page_bytes <= kMaxPageBytes) return {};
  return fail(Code::kInvalid, fmt::format("a page of {} bytes: choose {} to {}", page_bytes,
                                          kMinContentBytes, kMaxPageBytes));
}

inline Result<void> check_page_fits(uint64_t page_bytes, const Client& client) {
  if (page_bytes <= client.page_bytes()) return {};
  return fail(
      Code::kInvalid,
      fmt::format("a page of {} is larger than the node's slots of {}: choose smaller pages, or "
                  "start the node with larger ones",
                  format_bytes(page_bytes), format_bytes(client.page_bytes())));
}

}  // namespace farpage
