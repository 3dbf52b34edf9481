/** What came out, in words and in figures. */

import { LETTERS, type Metrics, type Result, type Run } from "./data.ts";
import { fill, h } from "./dom.ts";
import { amount, count, percent, seconds, times } from "./format.ts";

interface Figure {
  label: string;
  help: string;
  text: (metrics: Metrics) => string;
  /** Smaller is better, greater is better, or neither. */
  better?: "less" | "more";
  value?: (metrics: Metrics) => number | null;
}

export const FIGURES: readonly Figure[] = [
  {
    label: "Recovery",
    help: "from the outage's end until goodput stays at 95 % of the offered load",
    text: (m) => (m.recovered ? seconds(m.recovery_time) : "never"),
    better: "less",
    value: (m) => (m.recovered ? m.recovery_time : Infinity),
  },
  { label: "Peak load", help: "requests a second", text: (m) => `${amount(m.peak_rps)}/s`, better: "less", value: (m) => m.peak_rps },
  { label: "Amplification", help: "attempts per call", text: (m) => times(m.amplification), better: "less", value: (m) => m.amplification },
  { label: "Goodput", help: "successful calls a second", text: (m) => `${amount(m.goodput)}/s`, better: "more", value: (m) => m.goodput },
  { label: "Succeeded", help: "share of the calls", text: (m) => percent(succeeded(m)), better: "more", value: succeeded },
  { label: "p50", help: "median latency of a call", text: (m) => seconds(m.p50) },
  { label: "p99", help: "99 of 100 calls are faster", text: (m) => seconds(m.p99) },
  { label: "Attempts", help: "requests sent in all", text: (m) => count(m.attempts) },
  { label: "Per success", help: "attempts per successful call", text: (m) => amount(m.calls_per_success), better: "less", value: (m) => m.calls_per_success },
];

function succeeded(metrics: Metrics): number | null {
  return metrics.availability ?? (metrics.calls > 0 ? metrics.successes / metrics.calls : null);
}

/** Which run is the better one by a figure; `null` if they are within 1 % or there is only one. */
export function winner(figure: Figure, runs: readonly Pick<Run, "metrics">[]): number | null {
  const [a, b] = runs.map((run) => figure.value?.(run.metrics) ?? null);
  if (!figure.better || a === undefined || b === undefined || a === null || b === null || a === b) return null;
  // "Never" is infinite, and further from any number than 1 %.
  if (Number.isFinite(a - b) && Math.abs(a - b) <= 0.01 * Math.max(Math.abs(a), Math.abs(b))) return null;
  return (figure.better === "less") === a < b ? 0 : 1;
}

/** One card per run: a stamp that says whether it recovered, and the sentence. */
export function showVerdict(place: Element, result: Result): void {
  fill(place, ...result.runs.map((run, i) => card(run, i, result.runs.length > 1)));
}

function card(run: Run, i: number, several: boolean): HTMLElement {
  const { recovered } = run.metrics;
  return h(
    "article.verdict",
    { "data-run": LETTERS[i], "data-recovered": String(recovered) },
    h(
      "p.head",
      {},
      several && h("span.letter", {}, LETTERS[i]),
      h("span.name", {}, run.name),
      h("span.stamp", {}, recovered ? "✓ recovered" : "✕ did not recover"),
    ),
    ...sentences(run.verdict),
    ...(run.notes ?? []).map((note) => h("p.note", {}, note)),
  );
}

/** The first sentence is the answer; the others say more. */
function sentences(verdict: string): HTMLElement[] {
  const end = /[.!?](?=\s+\p{Lu})/u.exec(verdict);
  if (!end) return [h("p.words", {}, verdict)];
  return [h("p.words", {}, verdict.slice(0, end.index + 1)), h("p.more", {}, verdict.slice(end.index + 1).trim())];
}

/** The figures of all runs, one row each; the better one of two is marked in words as well. */
export function showFigures(place: Element, result: Result): void {
  const { runs } = result;
  const heads = FIGURES.map((figure) => h("th", { scope: "col", title: figure.help }, figure.label));
  const rows = runs.map((run, i) =>
    h(
      "tr",
      { "data-run": LETTERS[i] },
      h("th", { scope: "row" }, runs.length > 1 && h("span.letter", {}, LETTERS[i]), run.name),
      ...FIGURES.map((figure) => {
        const best = winner(figure, runs) === i;
        const mark = best && h("span.best", { title: "the better of the two" }, h("span.spoken", {}, " (better)"));
        return h("td", { "data-label": figure.label }, figure.text(run.metrics), mark);
      }),
    ),
  );
  fill(
    place,
    h(
      "table.figures",
      {},
      h("caption.spoken", {}, "Figures of each run"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Policy"), ...heads)),
      h("tbody", {}, ...rows),
    ),
  );
}
