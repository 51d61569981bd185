#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace farpage::chaos {

// Parts of reports that campaigns against simulated clusters and against real processes share.
// Counts stand in the order of their names.
using Names = std::span<const std::string_view>;
using Counts = std::span<const uint64_t>;

uint64_t sum_of(Counts counts);
boost::json::object counts_json(Names names, Counts counts);

// A row for each kind: how often it was injected, and what of that was `noticed`.
struct KindTable {
  Names names;
  Counts injected;
  Counts noticed;
  std::string_view noticed_name;
  int width;  // of a number
};
std::string kind_rows(const KindTable& table);
std::string finding_row(std::string_view name, uint64_t count);
std::string finding_rows(Names names, Counts counts);
// Indented below what they explain.
std::string indented(std::span<const std::string> lines);

}  // namespace farpage::chaos
