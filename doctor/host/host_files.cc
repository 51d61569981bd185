#include "doctor/host/host_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace farpage::doctor {
namespace {

constexpr const char* kSpace = " \t\n";

std::string trim(std::string text) {
  text.erase(text.find_last_not_of(kSpace) + 1);
  text.erase(0, text.find_first_not_of(kSpace));
  return text;
}

}  // namespace

bool HostFiles::exists(const std::string& path) const {
  std::error_code ignored;
  return std::filesystem::exists(root_ + path, ignored);
}

std::optional<std::string> HostFiles::text(const std::string& path) const {
  std::error_code error;
  if (std::filesystem::is_directory(root_ + path, error)) return std::nullopt;
  std::ifstream file(root_ + path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream content;
  content << file.rdbuf();
  if (file.bad()) return std::nullopt;
  std::string text = std::move(content).str();
  text.erase(text.find_last_not_of(kSpace) + 1);
  return text;
}

std::optional<uint64_t> HostFiles::number(const std::string& path) const {
  const auto found = text(path);
  if (!found) return std::nullopt;
  uint64_t number = 0;
  const char* end = found->data() + found->size();
  const auto parsed = std::from_chars(found->data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

std::optional<std::string> HostFiles::value(const std::string& path, std::string_view key) const {
  std::istringstream lines(text(path).value_or(""));
  std::string line;
  while (std::getline(lines, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || trim(line.substr(0, colon)) != key) continue;
    return trim(line.substr(colon + 1));
  }
  return std::nullopt;
}

std::vector<std::string> HostFiles::names(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root_ + folder, error), end;
       !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace farpage::doctor
