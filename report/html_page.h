#pragma once

#include <string>

namespace farpage {

// A page that needs nothing else: the title as its heading, and what stands below it.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace farpage
