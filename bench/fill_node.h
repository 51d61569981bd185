#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tier/client.h"

namespace farpage {

struct FillOptions {
  std::string name_space;
  uint64_t page_bytes = 0;
  uint64_t pages = 0;
};

// Puts pages of one length, with the content of put 1 (replay/page_content.h), and returns their
// keys. `interrupted` is asked, and `filled` told how far it is, every now and then.
Result<std::vector<PageKey>> fill_node(
    Client& client, const FillOptions& options, const std::function<bool()>& interrupted,
    const std::function<void(uint64_t done, uint64_t total)>& filled);

}  // namespace farpage
