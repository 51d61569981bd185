// A TOML file of anybody, read as a node's configuration: refused, or within its limits.
#include "base/check.h"
#include "base/config/config.h"
#include "node/settings/options.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace farpage;
  const MemoryFile file(data, bytes);
  auto config = Config::load(file.path(), {});
  if (!config) {
    FARPAGE_CHECK(!config.error().message.empty());
    return 0;
  }
  NodeOptions options;
  const auto read =
      config->read("node", fields(options)).and_then([&] { return config->finish(); });
  if (!read) {
    FARPAGE_CHECK(!read.error().message.empty());
    return 0;
  }
  if (options.validate()) FARPAGE_CHECK(options.page_bytes > 0 && options.lease_ms > 0);
  return 0;
}
