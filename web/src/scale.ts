/** Scale from a slider's position to a value: linear or logarithmic. */

export const STEPS = 1000;

export interface Scale {
  min: number;
  max: number;
  log: boolean;
  whole: boolean;
}

/** The value at a position between 0 and `STEPS`, rounded to three digits. */
export function valueAt(scale: Scale, position: number): number {
  const share = Math.min(1, Math.max(0, position / STEPS));
  const { min, max } = scale;
  if (share === 0) return min;
  const low = lowest(scale);
  const raw = scale.log ? low * (max / low) ** share : min + (max - min) * share;
  const rounded = Number(raw.toPrecision(3));
  return Math.min(max, Math.max(min, scale.whole ? Math.round(rounded) : rounded));
}

/** The position at which a value stands. */
export function positionOf(scale: Scale, value: number): number {
  const { min, max } = scale;
  const held = Math.min(max, Math.max(min, value));
  const low = lowest(scale);
  const share = scale.log ? Math.log(Math.max(low, held) / low) / Math.log(max / low) : (held - min) / (max - min);
  return Math.round(share * STEPS);
}

/** Start of the logarithm: a scale that begins at 0 has it at its very end, and then 1. */
const lowest = (scale: Scale): number => (scale.min > 0 ? scale.min : 1);
