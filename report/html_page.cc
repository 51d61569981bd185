#include "report/html_page.h"

#include "report/chart.h"

namespace farpage {
namespace {

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, "Liberation Sans", Arial, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 900px; margin: 32px auto; padding: 0 20px; }
h1 { font-size: 24px; margin: 0 0 4px; }
p { margin: 4px 0 20px; color: #444; }
table { border-collapse: collapse; margin: 0 0 28px; width: 100%; }
td { padding: 4px 12px 4px 0; border-bottom: 1px solid #e2e2e2; vertical-align: top; }
td:first-child { white-space: pre; color: #444; width: 220px; }
td:last-child { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; margin: 0 0 28px; font: 12px system-ui, "Liberation Sans", Arial, sans-serif; }
svg text { fill: #1a1a1a; } svg .title { font-size: 16px; font-weight: 600; }
.axis { stroke: #1a1a1a; stroke-width: 1; } .grid { stroke: #e2e2e2; stroke-width: 1; }
.bar { fill: #3568b0; } .mark { stroke: #b3261e; stroke-width: 1.5; stroke-dasharray: 4 3; }
polyline { fill: none; stroke-width: 1.8; }
.note { border-left: 4px solid #b36b00; padding-left: 10px; }
)";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  const std::string heading = escape_html(title);
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + heading +
         "</title><style>" + kStyle + "</style></head><body>\n<h1>" + heading + "</h1>\n" + body +
         "</body></html>\n";
}

}  // namespace farpage
