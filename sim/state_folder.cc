#include "sim/state_folder.h"

#include <cstdlib>
#include <filesystem>

#include "base/check.h"

namespace farpage {
namespace {

constexpr const char* kName = "/farpage-sim-XXXXXX";

bool make(std::string folder, std::string& path) {
  folder += kName;
  if (::mkdtemp(folder.data()) == nullptr) return false;
  path = std::move(folder);
  return true;
}

}  // namespace

StateFolder::StateFolder() {
  FARPAGE_CHECK(make("/dev/shm", path_) ||
                make(std::filesystem::temp_directory_path().string(), path_));
}

StateFolder::~StateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace farpage
