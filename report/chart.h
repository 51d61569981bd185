#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace farpage {

// Pictures as SVG text, to stand in a page of HTML.

struct Bar {
  double left = 0;  // in the axis's unit
  double right = 0;
  double value = 0;
};

struct Mark {
  double at = 0;
  std::string label;
};

// Bars over a logarithmic axis, with upright lines at the marks.
struct LogBarChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Bar> bars;
  std::vector<Mark> marks;
};
std::string draw(const LogBarChart& chart);

struct Point {
  double x = 0;
  double y = 0;
};

// As many as can be told apart: html_page() has a colour for each, of light pages and dark ones.
inline constexpr size_t kMostSeries = 8;

struct Line {
  std::string label;  // beside the picture's title; empty: none
  size_t series = 0;  // less than kMostSeries
  std::vector<Point> points;
};

// Lines over a linear axis that starts at 0, with upright lines at the marks.
struct LineChart {
  enum class Scale {
    kShare,  // of 0 to 1, from 0% to 100%
    kLog,    // points at 0 are left out
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  Scale scale = Scale::kShare;
  std::vector<Line> lines;
  std::vector<Mark> marks;
};
std::string draw(const LineChart& chart);

struct NamedBar {
  std::string label;
  size_t series = 0;  // less than kMostSeries
  double value = 0;
};

// Lying bars over a linear axis that starts at 0, each with its name and value.
struct NamedBarChart {
  std::string title;
  std::string x_label;
  bool is_share = false;  // of 0 to 1, from 0% to 100%
  std::vector<NamedBar> bars;
};
std::string draw(const NamedBarChart& chart);

std::string escape_html(const std::string& text);

}  // namespace farpage
