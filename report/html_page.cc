#include "report/html_page.h"

#include <fmt/format.h>

#include "report/chart.h"

namespace farpage {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --soft: #444; --rule: #e2e2e2;
  --c0: #3568b0; --c1: #b3261e; --c2: #2e7d32; --c3: #b36b00; --c4: #6a3d9a; --c5: #00838f; --c6: #5d4037;
  --c7: #c2185b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #161616; --soft: #b5b5b5; --rule: #3a3a3a;
  --c0: #7aa7e8; --c1: #f2837b; --c2: #7cc47f; --c3: #e8ad52; --c4: #b897de; --c5: #5fc7d2; --c6: #bf9d90;
  --c7: #f08ab4; } }
body { font: 15px/1.5 system-ui, "Liberation Sans", Arial, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 1080px; margin: 32px auto; padding: 0 20px; }
h1 { font-size: 24px; margin: 0 0 4px; }
p { margin: 4px 0 20px; color: var(--soft); overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
.table { overflow-x: auto; margin: 0 0 28px; }
td, th { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--rule); vertical-align: top; text-align: left; }
.table td, .table th { font-size: 13px; padding-right: 9px; font-variant-numeric: tabular-nums; }
.table th { font-weight: 600; color: var(--soft); vertical-align: bottom; }
.facts { margin: 0 0 28px; }
.facts td:first-child { color: var(--soft); width: 220px; }
.facts td:last-child { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
svg { width: 100%; max-width: 900px; height: auto; margin: 0 0 28px; font: 12px system-ui, "Liberation Sans", Arial, sans-serif; }
svg text { fill: var(--ink); } svg .title { font-size: 16px; font-weight: 600; }
.axis { stroke: var(--ink); stroke-width: 1; } .grid { stroke: var(--rule); stroke-width: 1; }
.bar { fill: var(--c0); } .mark { stroke: var(--c1); stroke-width: 1.5; stroke-dasharray: 4 3; }
polyline { fill: none; stroke-width: 1.8; }
.note { border-left: 4px solid var(--c3); padding-left: 10px; }
)";

// A line, a bar and a word of the legend have the colour of their series.
std::string series_style() {
  std::string style;
  for (size_t series = 0; series < kMostSeries; ++series) {
    style += fmt::format(
        "polyline.s{0} {{ stroke: var(--c{0}); }} rect.s{0} {{ fill: var(--c{0}); }} span.s{0} {{ "
        "color: var(--c{0}); }}\n",
        series);
  }
  return style;
}

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  const std::string heading = escape_html(title);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
         "content=\"width=device-width\"><title>" +
         heading + "</title><style>" + kStyle + series_style() + "</style></head><body>\n<h1>" +
         heading + "</h1>\n" + body + "</body></html>\n";
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"table\"><table>\n";
  const char* cell = "th";
  for (const std::vector<std::string>& row : rows) {
    html += "<tr>";
    for (const std::string& text : row)
      html += fmt::format("<{0}>{1}</{0}>", cell, escape_html(text));
    html += "</tr>\n";
    cell = "td";
  }
  return html + "</table></div>\n";
}

}  // namespace farpage
