#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lab/kvhl/sweep.h"

namespace farpage::kvhl {
namespace {

// KV-Hierarchy-Lab's own results, and the workloads that they are of.
std::string published() {
  const char* folder = std::getenv("FARPAGE_TRACES");
  const std::string path = std::string(folder == nullptr ? "traces" : folder) + "/kvhl";
  return std::filesystem::exists(path + "/results.csv") ? path : "";
}

// Fields of a line, with quotes around those that have commas.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

struct Table {
  std::vector<std::string> header;
  std::map<std::string, std::vector<std::string>> rows;  // by scenario, workload and policy
};

Table table_of(std::istream& text) {
  Table table;
  for (std::string line; std::getline(text, line);) {
    auto fields = fields_of(line);
    if (table.header.empty()) {
      table.header = std::move(fields);
    } else {
      table.rows[fields[0] + " " + fields[1] + " " + fields[2]] = std::move(fields);
    }
  }
  return table;
}

const std::set<std::string> kFractions = {"avg_latency_ms", "overall_hit_rate",
                                          "prefetch_usefulness"};

TEST(PublishedRuns, EveryColumnOfEveryRunIsTheSame) {
  const std::string folder = published();
  if (folder.empty()) {
    GTEST_SKIP()
        << "traces: FARPAGE_TRACES has no kvhl/results.csv, KV-Hierarchy-Lab's own results";
  }
  std::ifstream file(folder + "/results.csv");
  const Table theirs = table_of(file);
  ASSERT_EQ(theirs.rows.size(), 120u);
  const auto swept = sweep(folder + "/workloads", [](size_t, size_t) {});
  ASSERT_TRUE(swept.has_value()) << swept.error().message;
  std::istringstream text(*swept);
  const Table ours = table_of(text);
  EXPECT_EQ(ours.rows.size(), 210u);
  EXPECT_EQ(ours.header, theirs.header);
  for (const auto& [run, their_row] : theirs.rows) {
    const auto found = ours.rows.find(run);
    ASSERT_NE(found, ours.rows.end()) << run;
    ASSERT_EQ(found->second.size(), their_row.size()) << run;
    for (size_t column = 0; column < their_row.size(); ++column) {
      const std::string& name = theirs.header[column];
      if (kFractions.contains(name)) {
        const double their_value = std::stod(their_row[column]);
        EXPECT_NEAR(std::stod(found->second[column]), their_value, 1e-9 * std::abs(their_value))
            << run << " " << name;
      } else {
        EXPECT_EQ(found->second[column], their_row[column]) << run << " " << name;
      }
    }
  }
}

}  // namespace
}  // namespace farpage::kvhl
