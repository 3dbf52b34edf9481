/** Numbers as people read them: few digits, a unit, and a dash for what is missing. */

export const MISSING = "–";

/** Three significant digits, thousands with a comma: 0.0123, 4.56, 12.3, 1,230. */
export function amount(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  if (size >= 1e7) return `${plain(value / 1e6, 3)} M`;
  if (size >= 100) return Math.round(value).toLocaleString("en-US");
  return plain(value, 3);
}

/** A count: every digit, thousands with a comma. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  return Math.round(value).toLocaleString("en-US");
}

/** Seconds in the unit that suits them: 12 ms, 1.5 s, 2 min. */
export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 0.9995e-3) return `${plain(value * 1e6, 3)} µs`;
  if (size < 0.9995) return `${plain(value * 1e3, 3)} ms`;
  if (size < 600) return `${plain(value, 3)} s`;
  return `${plain(value / 60, 3)} min`;
}

export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  return `${plain(value * 100, 3)} %`;
}

/** A multiple: 1.25×. */
export function times(value: number | null | undefined): string {
  const text = amount(value);
  return text === MISSING ? text : `${text}×`;
}

function plain(value: number, digits: number): string {
  return Number(value.toPrecision(digits)).toLocaleString("en-US", {
    maximumSignificantDigits: digits,
  });
}
