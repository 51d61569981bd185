#!/usr/bin/env python3
"""Draws hit rate against budget, a line for each policy, from the CSV of `farpage-lab policies`.

The SVG needs nothing else.
"""

import argparse
import csv
import pathlib
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 460, 70, 190, 56, 56
COLORS = ("#1a1a1a", "#3568b0", "#b3261e", "#2e7d32", "#b36b00", "#6a3d9a", "#00838f", "#c2185b", "#5d4037", "#455a64")
STYLE = """text { font: 13px system-ui, "Liberation Sans", Arial, sans-serif; fill: #1a1a1a; } .title { font-size: 17px; font-weight: 600; }
.grid { stroke: #e2e2e2; } polyline { fill: none; stroke-width: 2; }"""


def curves(rows):
    """Points (budget, hit rate) of each policy, by budget; policies in the order of their rows."""
    lines = {}
    for row in rows:
        lines.setdefault(row["policy"], []).append((int(row["budget_pages"]), float(row["hit_rate"])))
    return {policy: sorted(points) for policy, points in lines.items()}


def hit_rate_chart(title, lines):
    most_pages = max(pages for points in lines.values() for pages, _ in points)
    step = next(step for step in (0.02, 0.05, 0.1, 0.2) if step * 8 >= max(rate for points in lines.values() for _, rate in points) or step == 0.2)
    most_rate = step * 8 if step < 0.2 else 1.0
    across = lambda pages: LEFT + pages / most_pages * (WIDTH - LEFT - RIGHT)
    down = lambda rate: HEIGHT - BOTTOM - rate / most_rate * (HEIGHT - TOP - BOTTOM)
    text = lambda x, y, words, more="": f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', f"<title>{escape(title)}</title><style>{STYLE}</style>",
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>', text(LEFT, 30, title, 'class="title"')]
    for i in range(round(most_rate / step) + 1):
        y = down(i * step)
        parts += [f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>', text(LEFT - 8, y + 4, f"{i * step:.2f}", 'text-anchor="end"')]
    for pages in sorted({pages for points in lines.values() for pages, _ in points}):
        parts.append(text(across(pages), HEIGHT - BOTTOM + 20, f"{pages:,}", 'text-anchor="middle"'))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "pages that may be resident", 'text-anchor="middle"'))
    last_y = 0.0
    for color, (policy, points) in zip(COLORS * len(lines), sorted(lines.items(), key=lambda line: -line[1][-1][1])):
        places = " ".join(f"{across(pages):.1f},{down(rate):.1f}" for pages, rate in points)
        last_y = max(down(points[-1][1]) + 4, last_y + 16)
        parts += [f'<polyline stroke="{color}" points="{places}"/>', text(across(points[-1][0]) + 8, last_y, policy, f'style="fill:{color}"')]
    return "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("svg", help="where to write it; the CSV comes from standard input")
    parser.add_argument("--title", default="Hit rate against budget")
    options = parser.parse_args()
    lines = curves(csv.DictReader(sys.stdin))
    if not lines:
        parser.error("standard input has no runs: pipe `farpage-lab policies --policy A,B --budget N,N --csv -` into it")
    pathlib.Path(options.svg).write_text(hit_rate_chart(options.title, lines))


if __name__ == "__main__":
    main()
