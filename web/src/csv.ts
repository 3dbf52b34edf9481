/** The curves as comma-separated values: one row per moment and run. */

import { COLUMNS, type Run } from "./data.ts";

const HEADER = ["run", "time", ...COLUMNS];

export function csv(runs: readonly Run[]): string {
  const rows = [HEADER.join(",")];
  for (const run of runs) {
    const name = quoted(run.name);
    run.series.time.forEach((time, i) => {
      const values = COLUMNS.map((column) => run.series[column][i] ?? "");
      rows.push([name, time, ...values].join(","));
    });
  }
  return rows.join("\r\n") + "\r\n";
}

/**
 * A field that holds text. Spreadsheets take a leading =, +, - or @ for a formula, and a policy's
 * name may come from another person's file: an apostrophe in front keeps it text.
 */
export function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
