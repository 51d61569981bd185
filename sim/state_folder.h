#pragma once

#include <string>

namespace farpage {

// A fresh folder for the state files of simulated nodes, removed with all that is in it. In memory
// where the system has such a place: a simulated crash needs no disk, and syncing one takes time.
class StateFolder {
 public:
  StateFolder();
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace farpage
