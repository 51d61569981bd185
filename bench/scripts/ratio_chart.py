"""A picture of ratios against their bounds: one bar a case, as SVG that needs nothing else."""

from xml.sax.saxutils import escape

WIDTH, LABELS, RIGHT = 1000, 390, 150
ROW, TOP, BOTTOM = 46, 74, 48
COLORS = {True: "#3568b0", False: "#b3261e", None: "#8a8a8a"}
STYLE = """text { font: 13px system-ui, "Liberation Sans", Arial, sans-serif; fill: #1a1a1a; }
.title { font-size: 17px; font-weight: 600; } .small { font-size: 11.5px; fill: #555; }
.grid { stroke: #e2e2e2; } .bound { stroke: #1a1a1a; stroke-width: 2; }"""


def step_for(highest):
    return next(step for step in (0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, float("inf")) if highest / step <= 8)


def ratio_chart(title, bars):
    """Draws a bar for each {"name", "figures", "ratio", "bound", "at_most", "holds"}.

    A bar with bound None is only shown; one with holds None was not judged.
    """
    highest = max([1.0] + [max(bar["ratio"], bar["bound"] or 0) for bar in bars]) * 1.05
    height = TOP + ROW * len(bars) + BOTTOM
    across = lambda ratio: LABELS + ratio / highest * (WIDTH - LABELS - RIGHT)
    bottom = TOP + ROW * len(bars)
    text = lambda x, y, words, more="": f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
             f"<title>{escape(title)}</title><style>{STYLE}</style>",
             f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>', text(20, 30, title, 'class="title"'),
             text(20, 52, "Ratio of Farpage's figure to the peer's. The black mark is the bound: ≥ to reach, ≤ to keep below.",
                  'class="small"')]
    step = step_for(highest)
    for i in range(int(highest / step) + 1):
        x = across(i * step)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(text(x, bottom + 18, f"{i * step:g}", 'class="small" text-anchor="middle"'))
    parts.append(text(across(highest / 2), bottom + 38, "ratio", 'class="small" text-anchor="middle"'))
    for i, bar in enumerate(bars):
        y = TOP + ROW * i
        parts.append(text(LABELS - 12, y + 17, bar["name"], 'text-anchor="end"'))
        parts.append(text(LABELS - 12, y + 33, bar["figures"], 'class="small" text-anchor="end"'))
        parts.append(f'<rect x="{LABELS}" y="{y + 6}" width="{across(bar["ratio"]) - LABELS:.1f}" height="26" '
                     f'fill="{COLORS[bar["holds"]]}"/>')
        furthest = bar["ratio"]
        words = f"{bar['ratio']:.2f}"
        if bar["bound"] is not None:
            x = across(bar["bound"])
            parts.append(f'<line class="bound" x1="{x:.1f}" y1="{y + 1}" x2="{x:.1f}" y2="{y + 37}"/>')
            furthest = max(furthest, bar["bound"])
            words += f" ({'≤' if bar['at_most'] else '≥'} {bar['bound']:g})"
            words += {True: "", False: " missed", None: " not judged"}[bar["holds"]]
        parts.append(text(across(furthest) + 8, y + 24, words))
    return "\n".join(parts) + "\n</svg>\n"
