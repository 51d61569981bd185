#pragma once

#include <string>
#include <vector>

namespace farpage {

// A page that needs nothing else, for light screens and dark ones: the title as its heading, and
// what stands below it.
std::string html_page(const std::string& title, const std::string& body);

// A table that never makes the page wider than its window: what has no room is scrolled to. The
// first row has the headings.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace farpage
