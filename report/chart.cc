#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace farpage {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 360;
constexpr double kLeft = 76;
constexpr double kRight = kWidth - 20;
constexpr double kTop = 58;
constexpr double kBottom = kHeight - 52;

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_html(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2,
      y2, style);
}

std::string opening(const std::string& title, double height) {
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<text x=\"{}\" y=\"22\" "
      "class=\"title\">{}</text>\n",
      kWidth, height, escape_html(title), kLeft, escape_html(title));
}

std::string frame(const std::string& title, const std::string& x_label, const std::string& y_label,
                  const std::string& content) {
  const double middle_y = (kTop + kBottom) / 2;
  std::string svg = opening(title, kHeight) + content;
  svg += line(kLeft, kBottom, kRight, kBottom, "axis") + line(kLeft, kTop, kLeft, kBottom, "axis");
  svg += text_at((kLeft + kRight) / 2, kHeight - 10, "middle", x_label);
  svg += fmt::format(
      "<text x=\"18\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 18 "
      "{0:.1f})\">{1}</text>\n",
      middle_y, escape_html(y_label));
  return svg + "</svg>\n";
}

// 1, 2 or 5 times a power of ten, so that at most `steps` of them reach `most`.
double nice_step(double most, int steps) {
  const double least = most / steps;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

std::string y_axis(double most, double step, const char* format) {
  std::string svg;
  for (double value = 0; value <= most * 1.0001; value += step) {
    const double y = kBottom - (kBottom - kTop) * value / most;
    svg += line(kLeft, y, kRight, y, "grid");
    svg += text_at(kLeft - 8, y + 4, "end", fmt::format(fmt::runtime(format), value));
  }
  return svg;
}

struct LogScale {
  double low;
  double high;

  double share(double value) const {
    return std::clamp(std::log(value / low) / std::log(high / low), 0.0, 1.0);
  }
};

std::string log_y_axis(const LogScale& scale) {
  std::string svg;
  for (double value = scale.low; value <= scale.high * 1.001; value *= 10) {
    const double y = kBottom - (kBottom - kTop) * scale.share(value);
    svg += line(kLeft, y, kRight, y, "grid");
    svg += text_at(kLeft - 8, y + 4, "end", fmt::format("{:g}", value));
  }
  return svg;
}

struct LogAxis : LogScale {
  double place(double value) const { return kLeft + (kRight - kLeft) * share(value); }

  std::string draw_ticks() const {
    const bool is_wide = high / low > 1e3;
    std::string svg;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
      for (int digit = 1; digit < 10; ++digit) {
        const double value = digit * power;
        if (value < low * 0.999 || value > high * 1.001) continue;
        const bool is_labelled = digit == 1 || (!is_wide && (digit == 2 || digit == 5));
        svg += line(place(value), kBottom, place(value), kBottom + (is_labelled ? 7 : 4), "axis");
        if (is_labelled)
          svg += text_at(place(value), kBottom + 20, "middle", fmt::format("{:g}", value));
      }
    }
    return svg;
  }
};

}  // namespace

std::string draw(const LogBarChart& chart) {
  if (chart.bars.empty()) return "";
  double most = 0;
  for (const Bar& bar : chart.bars) most = std::max(most, bar.value);
  const double step = nice_step(most, 5);
  const double top = std::ceil(most / step) * step;
  const LogAxis axis = {{chart.bars.front().left, chart.bars.back().right}};

  std::string svg = y_axis(top, step, "{:g}") + axis.draw_ticks();
  for (const Bar& bar : chart.bars) {
    // A single slow one among thousands must be seen.
    const double height = std::max((kBottom - kTop) * bar.value / top, bar.value > 0 ? 2.0 : 0.0);
    const double left = axis.place(bar.left);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"bar\"/>\n",
        left, kBottom - height, std::max(axis.place(bar.right) - left - 0.6, 0.6), height);
  }
  double free_x = 0;
  double y = kTop - 8;
  for (const Mark& mark : chart.marks) {
    const double x = axis.place(mark.at);
    const double width = 6.6 * static_cast<double>(mark.label.size());
    const double centre = std::clamp(x, kLeft + width / 2, kRight - width / 2);
    y = centre - width / 2 < free_x ? y - 14 : kTop - 8;
    free_x = centre + width / 2 + 6;
    svg += line(x, y + 3, x, kBottom, "mark") + text_at(centre, y, "middle", mark.label);
  }
  return frame(chart.title, chart.x_label, chart.y_label, svg);
}

std::string draw(const LineChart& chart) {
  double last = 0;
  double least = HUGE_VAL;
  double most = 0;
  for (const Line& each : chart.lines) {
    for (const Point& point : each.points) {
      last = std::max(last, point.x);
      if (point.y > 0) least = std::min(least, point.y);
      most = std::max(most, point.y);
    }
  }
  const bool is_log = chart.scale == LineChart::Scale::kLog;
  if (last == 0 || (is_log && most == 0)) return "";
  const LogScale log = {std::pow(10, std::floor(std::log10(least))),
                        std::pow(10, std::floor(std::log10(most)) + 1)};
  const auto place_x = [&](double x) { return kLeft + (kRight - kLeft) * x / last; };
  const auto place_y = [&](double y) {
    return kBottom - (kBottom - kTop) * (is_log ? log.share(y) : y);
  };

  std::string svg = is_log ? log_y_axis(log) : y_axis(100, 20, "{:g}%");
  const double step = nice_step(last, 8);
  for (double x = 0; x <= last; x += step) {
    svg += line(place_x(x), kBottom, place_x(x), kBottom + 5, "axis");
    svg += text_at(place_x(x), kBottom + 20, "middle", fmt::format("{:.0f}", x));
  }
  double legend_x = kLeft + 4;
  for (const Line& each : chart.lines) {
    std::string places;
    for (const Point& point : each.points) {
      if (is_log && point.y <= 0) continue;
      places += fmt::format("{:.1f},{:.1f} ", place_x(point.x), place_y(point.y));
    }
    svg += fmt::format("<polyline points=\"{}\" class=\"s{}\"/>\n", places, each.series);
    if (each.label.empty()) continue;
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"36\" width=\"14\" height=\"4\" class=\"s{}\"/>\n",
                       legend_x, each.series);
    svg += text_at(legend_x + 20, 42, "start", each.label);
    legend_x += 44 + 6.0 * static_cast<double>(each.label.size());
  }
  for (const Mark& mark : chart.marks) {
    const double x = place_x(mark.at);
    const char* anchor = x > (kLeft + kRight) / 2 ? "end" : "start";
    svg += line(x, kTop, x, kBottom, "mark");
    svg += text_at(x + (*anchor == 'e' ? -6 : 6), kTop + 12, anchor, mark.label);
  }
  return frame(chart.title, chart.x_label, chart.y_label, svg);
}

std::string draw(const NamedBarChart& chart) {
  constexpr double kBarHeight = 22;
  constexpr double kNames = 300;  // the room for labels
  constexpr double kValues = 64;  // and for values
  constexpr size_t kLongestLabel = 46;
  double most = chart.is_share ? 1 : 0;
  for (const NamedBar& bar : chart.bars) most = std::max(most, bar.value);
  if (chart.bars.empty() || most <= 0) return "";
  const double height = kTop + kBarHeight * static_cast<double>(chart.bars.size()) + 40;
  std::string svg = opening(chart.title, height);
  double y = kTop - 16;
  for (const NamedBar& bar : chart.bars) {
    const double width = (kRight - kValues - kNames) * bar.value / most;
    const std::string label = bar.label.size() <= kLongestLabel
                                  ? bar.label
                                  : bar.label.substr(0, kLongestLabel - 3) + "...";
    svg += text_at(kNames - 8, y + 15, "end", label);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"s{}\"/>\n",
        kNames, y + 3, std::max(width, 1.0), kBarHeight - 6, bar.series);
    svg += text_at(kNames + std::max(width, 1.0) + 6, y + 15, "start",
                   chart.is_share ? fmt::format("{:.1f}%", 100 * bar.value)
                                  : fmt::format("{:.3g}", bar.value));
    y += kBarHeight;
  }
  svg += line(kNames, kTop - 16, kNames, y, "axis");
  return svg + text_at((kNames + kRight) / 2, y + 22, "middle", chart.x_label) + "</svg>\n";
}

std::string escape_html(const std::string& text) {
  std::string escaped;
  for (const char each : text) {
    switch (each) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += each;
    }
  }
  return escaped;
}

}  // namespace farpage
