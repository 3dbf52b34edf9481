/** Outcome of a run, in words and in figures. */

import { bands, letterOf, marked, type Metrics, type Result, type Run, type Scenario } from "./data.ts";
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

/** Which run is the best one by a figure; `null` if another is within 1 % of it, or there is only one. */
export function winner(figure: Figure, runs: readonly Pick<Run, "metrics">[]): number | null {
  const values = runs.map((run) => figure.value?.(run.metrics) ?? null);
  if (!figure.better || values.length < 2 || values.some((value) => value === null)) return null;
  const sign = figure.better === "less" ? 1 : -1;
  const ranked = (values as number[]).map((value, run) => ({ value, run })).sort((x, y) => sign * (x.value - y.value) || 0);
  const [first, second] = ranked as [{ value: number; run: number }, { value: number; run: number }];
  if (first.value === second.value) return null;
  // "Never" is infinite, and further from any number than 1 %.
  const apart = Math.abs(first.value - second.value);
  if (Number.isFinite(apart) && apart <= 0.01 * Math.max(Math.abs(first.value), Math.abs(second.value))) return null;
  return first.run;
}

const STAMPS: Record<string, string> = { survived: "✓ survived", "recovered late": "◷ recovered late", collapsed: "✕ collapsed" };

/** State of the service after a run; results of older versions only say if it recovered. */
export const stateOf = (metrics: Metrics): string => metrics.state ?? (metrics.recovered ? "survived" : "collapsed");

/** What happens in a scenario, for a reader who has not seen it: the load, the faults, how long callers wait. */
export function situation(scenario: Scenario): string {
  const { arrival_rps, capacity_rps, timeout } = scenario;
  const load = typeof arrival_rps === "number" && arrival_rps > 0 ? `${amount(arrival_rps)} calls a second` : "Calls";
  const faults = bands(scenario).map(({ name, lasts, outage }) => {
    const what = !outage ? name : name === "hang" ? "it hangs" : name === "fail" ? "it answers with errors" : `outage (${name})`;
    return lasts > 0 ? `${what} for ${seconds(lasts)}` : what;
  });
  const told = [...new Set(faults)].join(", then ");
  return [
    `${load} on a backend that serves ${amount(capacity_rps)}.`,
    told && `${told.charAt(0).toUpperCase()}${told.slice(1)}.`,
    typeof timeout === "number" && `Callers wait ${seconds(timeout)} for an answer.`,
  ]
    .filter(Boolean)
    .join(" ");
}

/** `text` with its numbers and their units on one line. */
export const joined = (text: string): string => text.replace(/(\d) (?=(?:ms|s)\b)/g, "$1\u00a0");

/** The headline, then one card per run: a stamp, the verdict, and the sentence that explains the curve. */
export function showVerdict(place: Element, result: Result): void {
  const several = result.runs.length > 1;
  fill(
    place,
    result.headline ? h("p.headline", { id: "headline" }, joined(result.headline)) : null,
    h("p.situation", { id: "situation" }, situation(result.scenario)),
    h("div.cards", {}, ...result.runs.map((run, i) => card(run, i, several))),
    result.verdict ? h("p.compared", {}, result.verdict) : null,
  );
}

function card(run: Run, i: number, several: boolean): HTMLElement {
  const state = stateOf(run.metrics);
  const [answer, more] = sentences(run.verdict);
  return h(
    "article.verdict",
    { ...marked(i), "data-state": state },
    h(
      "p.head",
      {},
      several && h("span.letter", {}, letterOf(i)),
      h("span.name", {}, run.name),
      h("span.stamp", {}, STAMPS[state] ?? state),
    ),
    h("p.words", {}, answer),
    run.explanation ? h("p.because", {}, run.explanation) : null,
    more ? h("p.more", {}, more) : null,
    ...(run.notes ?? []).map((note) => h("p.note", {}, note)),
  );
}

/** The first sentence is the answer; the others say more. */
function sentences(verdict: string): [string, string] {
  const end = /[.!?](?=\s+\p{Lu})/u.exec(verdict);
  return end ? [verdict.slice(0, end.index + 1), verdict.slice(end.index + 1).trim()] : [verdict, ""];
}

/** The figures of all runs, one row each; the best one is marked in words as well. */
export function showFigures(place: Element, result: Result): void {
  const { runs } = result;
  const heads = FIGURES.map((figure) => h("th", { scope: "col", title: figure.help }, figure.label));
  const rows = runs.map((run, i) =>
    h(
      "tr",
      marked(i),
      h("th", { scope: "row" }, runs.length > 1 && h("span.letter", {}, letterOf(i)), run.name),
      ...FIGURES.map((figure) => {
        const best = winner(figure, runs) === i;
        const mark = best && h("span.best", { title: "the best of these" }, h("span.spoken", {}, " (best)"));
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
