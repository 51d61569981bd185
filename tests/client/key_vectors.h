#pragma once

#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farpage {

// The test vectors of docs/formats/keys.md, whose path is FARPAGE_KEYS_DOC.

using Facts = std::vector<std::pair<std::string, std::string>>;

inline std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

// A row of docs/formats/keys.md.
struct Vector {
  Facts facts;
  std::string engine_key, name_space, key;
};

// "%0A" is a byte, as the document writes it.
inline std::string unquoted(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool quoted = text[i] == '%';
    bytes += quoted ? static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16))
                    : text[i];
    i += quoted ? 2 : 0;
  }
  return bytes;
}

inline std::vector<std::string> cells(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream text(row);
  for (std::string cell; std::getline(text, cell, '|');) {
    std::erase(cell, '`');
    cells.push_back(cell.size() < 2 ? "" : cell.substr(1, cell.size() - 2));
  }
  return cells;
}

// The rows of six bars whose third cell is a number.
inline std::vector<Vector> documented_vectors() {
  std::ifstream file(FARPAGE_KEYS_DOC);
  std::vector<Vector> vectors;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> row = cells(line);
    if (!line.starts_with("| `") || row.size() != 6 || !std::isdigit(row[3][0])) continue;
    Vector vector = {.facts = {}, .engine_key = {}, .name_space = row[4], .key = row[5]};
    std::istringstream facts(row[1]);
    for (std::string fact; facts >> fact;) {
      const size_t equals = fact.find('=');
      vector.facts.emplace_back(unquoted(fact.substr(0, equals)),
                                unquoted(fact.substr(equals + 1)));
    }
    for (int i = 0; i < std::stoi(row[3]); ++i) vector.engine_key += unquoted(row[2]);
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

}  // namespace farpage
