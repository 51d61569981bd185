#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace farpage {

// For the end of a message about a name that is not known: "; did you mean 'NEAREST'?", or nothing
// if none of them is near.
std::string suggestion(std::string_view unknown, const std::vector<std::string>& known);

}  // namespace farpage
