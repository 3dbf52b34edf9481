/** The channels of the strip chart: which columns each one draws, and how it is read. */

import type { Column, ColumnName, Metrics, Run } from "./data.ts";
import { amount, percent, seconds, times } from "./format.ts";

/** Style of a line: by the run's own colour and dash, or as a grey line all runs share. */
export type Stroke = "run" | "faint" | "offered" | "capacity" | "area";

export interface Trace {
  column: ColumnName;
  label: string;
  stroke: Stroke;
  /** Which of the channel's two scales it is read on. */
  scale: "y" | "share";
  format: (value: number | null | undefined) => string;
  /** Figure of the whole run, shown while no moment is chosen. */
  summary: "peak" | "low" | "mean";
  /** That figure, where the result has it: its window may be longer than a step of the column. */
  figure?: (metrics: Metrics) => number | null;
}

export interface Channel {
  id: string;
  title: string;
  unit: string;
  log?: boolean;
  /** The least the scale shows, so that a quiet run is not all noise. */
  atLeast: number;
  traces: Trace[];
}

const line = (
  column: ColumnName,
  label: string,
  format: Trace["format"] = amount,
  rest: Partial<Trace> = {},
): Trace => ({ column, label, stroke: "run", scale: "y", format, summary: "peak", ...rest });

export const CHANNELS: readonly Channel[] = [
  {
    id: "load",
    title: "Load",
    unit: "requests/s",
    atLeast: 10,
    traces: [
      line("capacity", "capacity", amount, { stroke: "capacity" }),
      line("offered", "offered", amount, { stroke: "offered", summary: "mean" }),
      line("received", "received", amount, { figure: (metrics) => metrics.peak_rps }),
    ],
  },
  {
    id: "goodput",
    title: "Goodput",
    unit: "successes/s",
    atLeast: 10,
    traces: [
      line("offered", "offered", amount, { stroke: "offered", summary: "mean" }),
      line("goodput", "goodput", amount, { summary: "low" }),
    ],
  },
  {
    id: "latency",
    title: "Latency",
    unit: "log scale",
    log: true,
    atLeast: 0,
    traces: [line("p50", "p50", seconds, { stroke: "faint", summary: "mean" }), line("p99", "p99", seconds)],
  },
  { id: "queue", title: "Queue", unit: "requests waiting", atLeast: 10, traces: [line("queue", "queue")] },
  {
    id: "budget",
    title: "Budget, breaker",
    unit: "tokens",
    atLeast: 1,
    traces: [
      line("breaker_open", "breaker open", percent, { stroke: "area", scale: "share" }),
      line("budget", "budget", amount, { summary: "low" }),
    ],
  },
  {
    id: "amplification",
    title: "Amplification",
    unit: "per call",
    atLeast: 2,
    traces: [line("amplification", "amplification", times)],
  },
];

/** True if a column is the same for all runs of one scenario. */
export const isShared = (trace: Trace): boolean => trace.stroke === "offered" || trace.stroke === "capacity";

/** The longest time column; runs of one scenario share their grid, as far as each has come. */
export function sharedTime(runs: readonly Pick<Run, "series">[]): number[] {
  return runs.reduce<number[]>((best, run) => (run.series.time.length > best.length ? run.series.time : best), []);
}

/** A column on the shared grid: padded with gaps where the run has not come yet. */
export function onGrid(column: Column, length: number, positive = false): Column {
  const made: Column = new Array<number | null>(length).fill(null);
  const upTo = Math.min(length, column.length);
  for (let i = 0; i < upTo; i++) {
    const value = column[i];
    // A logarithmic scale has no place for zero.
    made[i] = value === undefined || value === null || (positive && value <= 0) ? null : value;
  }
  return made;
}

/** Reading of a trace over a whole run. */
export function whole(trace: Trace, run: { series: Run["series"]; metrics?: Metrics } | undefined): number | null {
  const known = run?.metrics && trace.figure?.(run.metrics);
  return known ?? summary(run?.series[trace.column] ?? [], trace.summary);
}

/** The peak, the low or the mean of a column; `null` if it holds nothing. */
export function summary(column: Column, kind: Trace["summary"]): number | null {
  if (kind === "mean") {
    const known = column.filter((value): value is number => value !== null);
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
  }
  let found: number | null = null;
  for (const value of column) {
    if (value === null) continue;
    if (found === null || (kind === "peak" ? value > found : value < found)) found = value;
  }
  return found;
}

/** The place of the grid nearest to `time`; -1 on an empty grid. */
export function nearest(grid: readonly number[], time: number): number {
  if (grid.length === 0) return -1;
  let low = 0;
  let high = grid.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((grid[middle] ?? 0) <= time) low = middle;
    else high = middle;
  }
  return time - (grid[low] ?? 0) <= (grid[high] ?? 0) - time ? low : high;
}

/** The places of at most `most` rows spread evenly over `length`, the last one always among them. */
export function spread(length: number, most: number): number[] {
  if (length <= most) return Array.from({ length }, (_, i) => i);
  const step = (length - 1) / (most - 1);
  return Array.from({ length: most }, (_, i) => Math.round(i * step));
}
