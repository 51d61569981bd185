#pragma once

#include <string>

namespace farpage {

// The path of the program whose `farpage node` this one starts: the file `farpage` in this
// program's own folder. An upgrade in between is found by the same name.
std::string node_program();

}  // namespace farpage
