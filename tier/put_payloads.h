#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "control/messages.h"
#include "integrity/crc32c.h"
#include "pagetable/touch_log.h"
#include "tier/client.h"
#include "tier/link/client_sources.h"
#include "tier/link/view.h"

namespace farpage {

inline uint64_t staged_bytes(const PutRequest& request) {
  return round_up(request.source.bytes, kStagingAlignment);
}

// The payloads of one commit, where its node finds them: in the client's own memory, if the node
// reads that in place, or else in a segment of the staging.
class PutPayloads {
 public:
  // `put`: its number of the sources.
  PutPayloads(ClientSources& sources, uint64_t put, const View& view)
      : sources_(sources), put_(put), view_(view) {}

  void add(const PutRequest& request) {
    CommitPage& page = pages_.emplace_back();
    page.key = request.key;
    page.payload_bytes = static_cast<uint32_t>(request.source.bytes);
    if (const auto place = sources_.find(request.source, put_);
        place && view_.sources.reads(place->source)) {
      page.source = place->source;
      page.staging_offset = place->offset;
      return;
    }
    page.staging_offset = bytes_;
    bytes_ += staged_bytes(request);
    staged_.push_back(request.source);
  }

  // To be written to the segment, one after the other; so many bytes with the gaps between them.
  std::span<const Slice> staged() const { return staged_; }
  uint64_t bytes() const { return bytes_; }
  bool any_in_place() const { return staged_.size() < pages_.size(); }

  // With their CRCs, and the staged ones from there on.
  std::vector<CommitPage> pages(std::span<const PutRequest> requests,
                                std::span<const uint32_t> places, uint64_t segment_offset) && {
    for (size_t i = 0; i < pages_.size(); ++i) {
      const Slice& source = requests[places[i]].source;
      pages_[i].payload_crc = crc32c(0, source.data, source.bytes);
      if (pages_[i].source == 0) pages_[i].staging_offset += segment_offset;
    }
    return std::move(pages_);
  }

 private:
  ClientSources& sources_;
  const uint64_t put_;
  const View& view_;
  std::vector<CommitPage> pages_;
  std::vector<Slice> staged_;
  uint64_t bytes_ = 0;
};

}  // namespace farpage
