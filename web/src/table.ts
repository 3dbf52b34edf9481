/** The curves as a table, for those who read rather than look. */

import { spread } from "./channels.ts";
import { COLUMNS, letterOf, type ColumnName, type Result } from "./data.ts";
import { fill, h } from "./dom.ts";
import { amount, percent, seconds } from "./format.ts";

const MOST_ROWS = 61;
const HEADS: Record<ColumnName, string> = {
  offered: "Offered /s",
  received: "Received /s",
  goodput: "Goodput /s",
  p50: "p50",
  p99: "p99",
  queue: "Queue",
  budget: "Budget",
  breaker_open: "Breaker open",
  amplification: "Amplification",
  capacity: "Capacity /s",
};

const shown = (column: ColumnName, value: number | null | undefined): string => {
  if (column === "p50" || column === "p99") return seconds(value);
  return column === "breaker_open" ? percent(value) : amount(value);
};

/** A closed section that builds its tables when it is opened. */
export function dataTable(): { element: HTMLDetailsElement; show: (result: Result) => void } {
  const body = h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Data table" });
  const element = h("details.data", { id: "data" }, h("summary", {}, "Data table"), body);
  let result: Result | null = null;
  const build = (): void => {
    if (element.open && result) fill(body, ...result.runs.map((_, i) => table(result as Result, i)));
  };
  element.addEventListener("toggle", build);
  return {
    element,
    show: (next) => {
      result = next;
      build();
    },
  };
}

function table(result: Result, place: number): HTMLElement {
  const run = result.runs[place];
  if (!run) return h("p", {}, "No data.");
  const letter = result.runs.length > 1 ? `${letterOf(place)}: ` : "";
  const rows = spread(run.series.time.length, MOST_ROWS).map((i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, seconds(run.series.time[i])),
      ...COLUMNS.map((column) => h("td", {}, shown(column, run.series[column][i]))),
    ),
  );
  return h(
    "table.rows",
    {},
    h("caption", {}, `${letter}${run.name}, ${rows.length} of ${run.series.time.length} moments`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Time"), ...COLUMNS.map((c) => h("th", { scope: "col" }, HEADS[c])))),
    h("tbody", {}, ...rows),
  );
}
