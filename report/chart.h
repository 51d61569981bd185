#pragma once

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

struct Line {
  std::string label;  // beside the picture's title; empty: none
  std::string colour;
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

std::string escape_html(const std::string& text);

}  // namespace farpage
