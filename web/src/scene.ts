/** State of the moving picture at one moment of a run. */

import type { Run } from "./data.ts";

export interface Scene {
  offered: number;
  received: number;
  goodput: number;
  /** Requests that wait, and how many of them, from the front, are for callers who have given up. */
  waiting: number;
  late: number;
  working: boolean;
}

/** The scene of `run` at a place of its grid. Of those that wait, the newest came within the timeout. */
export function sceneAt(run: Pick<Run, "series">, place: number, timeout: number | null): Scene {
  const at = (column: keyof Run["series"]): number => run.series[column][place] ?? 0;
  const waiting = at("queue");
  const received = at("received");
  const patient = timeout === null ? waiting : Math.min(waiting, received * timeout);
  return {
    offered: at("offered"),
    received,
    goodput: at("goodput"),
    waiting,
    late: Math.max(0, waiting - patient),
    working: at("capacity") > 0,
  };
}

/** What happens at this moment, for a reader who sees such a picture for the first time. */
export function sentence({ offered, received, goodput, waiting, late, working }: Scene): string {
  if (!working) return waiting > 0 ? "The server is stuck: requests pile up." : received > 0 ? "The server refuses everything." : "";
  if (goodput >= 0.9 * offered) return offered > 0 ? "Answers come in time." : "";
  const again = received > 1.25 * offered;
  if (late > 0 && goodput < 0.5 * offered) {
    return again ? "Answers come too late, so callers ask again." : "Answers come too late: the callers have gone.";
  }
  return again ? "Some calls fail, and ask again." : "Some calls fail.";
}
