#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "doctor/finding/wanted.h"
#include "doctor/host/host_files.h"
#include "doctor/host/privileges.h"
#include "tests/support/temp_dir.h"

namespace farpage::doctor {

// A root folder with the files that a test puts there.
class MadeUpHost {
 public:
  MadeUpHost& put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return *this;
  }

  HostFiles files() const { return HostFiles(folder_ / ""); }

 private:
  TempDir folder_;
};

inline const Privileges kRoot = {true, true, true};
inline const Privileges kUser = {false, false, false};

// A pool of 1 GiB that takes 1040 MiB, for 100 clients.
inline Wanted some_wanted() {
  Wanted wanted;
  wanted.names_pool = true;
  wanted.pool_bytes = uint64_t{1} << 30;
  wanted.memory_bytes = uint64_t{1040} << 20;
  wanted.needed_bytes = [](uint64_t pool_bytes) { return pool_bytes / 64 * 65; };
  wanted.max_clients = 100;
  return wanted;
}

}  // namespace farpage::doctor
