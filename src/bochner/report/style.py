"""How a page looks: by day and by night, on a phone and on a desk."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #5b6470; --line: #d5dae0;
  --good: #0b6b3a; --bad: #b3261e; --link: #0b57d0; --shade: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #14171a; --faint: #a0a9b4; --line: #3a424b;
  --good: #6fd39a; --bad: #ff8a80; --link: #8ab4f8; --shade: #1d2126; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; } h3 { font-size: 1.05rem; }
a { color: var(--link); } p { max-width: 46rem; }
summary { cursor: pointer; } nav ul { columns: 18rem; padding-left: 1.2rem; }
.note, figcaption { color: var(--faint); font-size: 0.875rem; }
pre { background: var(--shade); padding: 0.6rem; overflow-x: auto; font-size: 0.875rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
th { position: sticky; top: 0; background: var(--paper); } td.number { text-align: right; white-space: nowrap; }
td.long { min-width: 15rem; } td { min-width: 4rem; font-variant-numeric: tabular-nums; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.open { color: var(--faint); font-style: italic; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0.5rem 0; max-width: 100%; } figure svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); }
@media (max-width: 40rem) { .cards thead { display: none; }
  .cards, .cards tbody, .cards tr, .cards td { display: block; }
  .cards tr { border-bottom: 1px solid var(--line); padding: 0.6rem 0; }
  .cards td { border: 0; padding: 0.1rem 0; min-width: 0; text-align: left; }
  .cards td::before { content: attr(data-column) ": "; color: var(--faint); } }
"""
