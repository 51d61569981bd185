#include "node/store/recovered_pages.h"

#include "integrity/page_check.h"

namespace farpage {

RecoveredPages::RecoveredPages(const Geometry& geometry, const std::byte* headers,
                               const std::function<void(uint32_t slot)>& unproven) {
  for (uint32_t slot = 0; slot < geometry.slots; ++slot) {
    const PageHeader& page =
        *reinterpret_cast<const PageHeader*>(headers + geometry.header_offset(slot));
    const PageExpectation itself = {.key = page.key, .incarnation = page.incarnation};
    if (check_header(page, itself) != PageFinding::kGood || page.payload_bytes == 0 ||
        page.payload_bytes > geometry.page_bytes) {
      unproven(slot);
      continue;
    }
    const auto [known, is_new] = pages_.try_emplace(page.key, Page{slot, page.version});
    if (is_new) continue;
    // A run that was killed between the new page's publication and the old one's end.
    if (known->second.version < page.version) {
      unproven(known->second.slot);
      known->second = {slot, page.version};
    } else {
      unproven(slot);
    }
  }
}

std::optional<uint32_t> RecoveredPages::take(const PageKey& key, Version version) {
  const auto found = pages_.find(key);
  if (found == pages_.end() || found->second.version != version) return std::nullopt;
  const uint32_t slot = found->second.slot;
  pages_.erase(found);
  return slot;
}

bool RecoveredPages::drop(const PageKey& key, uint32_t slot) {
  const auto found = pages_.find(key);
  if (found == pages_.end() || found->second.slot != slot) return false;
  pages_.erase(found);
  return true;
}

std::optional<RecoveredPages::Page> RecoveredPages::take_any() {
  if (pages_.empty()) return std::nullopt;
  const Page page = pages_.begin()->second;
  pages_.erase(pages_.begin());
  return page;
}

}  // namespace farpage
