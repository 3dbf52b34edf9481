/** The shape of a result, as `Result.to_data()` writes it, and how it is read from the page. */

export type Column = (number | null)[];

export interface Series {
  time: number[];
  offered: Column;
  received: Column;
  goodput: Column;
  p50: Column;
  p99: Column;
  queue: Column;
  budget: Column;
  breaker_open: Column;
  amplification: Column;
  capacity: Column;
}

export type ColumnName = Exclude<keyof Series, "time">;

export const COLUMNS: readonly ColumnName[] = [
  "offered",
  "received",
  "goodput",
  "p50",
  "p99",
  "queue",
  "budget",
  "breaker_open",
  "amplification",
  "capacity",
];

export interface Outage {
  at: number;
  lasts: number;
  mode: string;
}

/** Another fault than an outage; its length is `lasts`, or `over`, or not known beforehand. */
export interface Fault {
  kind: string;
  at: number;
  lasts?: number;
  over?: number;
}

/** Marks of the strip: outages and other faults, as bands with a name. */
export interface Band {
  at: number;
  lasts: number;
  name: string;
  outage: boolean;
}

export function bands(scenario: { outages: Outage[]; faults?: Fault[] }): Band[] {
  const named = (kind: string): string => kind.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
  return [
    ...scenario.outages.map(({ at, lasts, mode }) => ({ at, lasts, name: mode, outage: true })),
    ...(scenario.faults ?? []).map(({ kind, at, lasts, over }) => ({ at, lasts: lasts ?? over ?? 0, name: named(kind), outage: false })),
  ];
}

export interface Metrics {
  peak_rps: number | null;
  amplification: number | null;
  goodput: number | null;
  recovered: boolean;
  recovery_time: number | null;
  attempts: number;
  calls: number;
  successes: number;
  calls_per_success: number | null;
  p50: number | null;
  p99: number | null;
  availability?: number | null;
  state?: string;
}

export interface PolicyText {
  repr: string;
  toml: string | null;
  python: string | null;
}

export interface Run {
  name: string;
  policy: PolicyText;
  verdict: string;
  metrics: Metrics;
  series: Series;
  explanation?: string;
  notes?: string[];
}

export interface Scenario {
  outages: Outage[];
  faults?: Fault[];
  capacity_rps: number;
  duration: number;
  [name: string]: unknown;
}

export interface Result {
  format: 1;
  version: string;
  seed: number;
  engine: string;
  scenario: Scenario;
  headline?: string;
  /** Summary of a comparison over seeds. */
  verdict?: string;
  runs: Run[];
}

export const FORMAT = 1;

/** The result inside this file; `null` if it holds none, which makes it the live page. */
export function embedded(text: string): Result | null {
  const data: unknown = JSON.parse(text);
  if (data === null) return null;
  if (typeof data !== "object" || (data as Result).format !== FORMAT) {
    throw new Error(`this file holds data of another format than ${FORMAT}`);
  }
  return data as Result;
}

/** A series without a single point. */
export function emptySeries(): Series {
  const made = { time: [] as number[] } as Series;
  for (const name of COLUMNS) made[name] = [];
  return made;
}

/** The letter that identifies a run of a comparison wherever a colour does: A to Z, then A2 and so on. */
export function letterOf(run: number): string {
  const round = Math.floor(run / 26);
  return String.fromCharCode(65 + (run % 26)) + (round > 0 ? String(round + 1) : "");
}

/** Pens: each run has a colour and a dash, which come round again after these. */
export const TONES = ["a", "b", "c", "d", "e", "f"] as const;
export const toneOf = (run: number): string => TONES[run % TONES.length] ?? "a";

/** The attributes by which a run's own elements are styled and found. */
export const marked = (run: number): { "data-run": string; "data-tone": string } => ({ "data-run": letterOf(run), "data-tone": toneOf(run) });
