#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace farpage {

// How much of a file's beginning tells what it is.
inline constexpr size_t kKindBytes = 512;

bool is_gzip(std::string_view head);

// The kind of a file that begins so, and advice, to stand behind its name: "is compressed with
// zstd: unpack it first". Nothing where it may be text, or binary data of any kind.
std::optional<std::string> known_kind(std::string_view head);
// The same, and data of any kind: nothing where it looks like text in UTF-8.
std::optional<std::string> unlike_text(std::string_view head);

}  // namespace farpage
