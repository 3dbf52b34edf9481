/** Requests to the page's server. Every call carries the token that the page's own address holds. */

import type { Fault, Outage, Result, Series } from "./data.ts";
import { jsonLines } from "./lines.ts";

/** A problem in the reader's own input: what, and where. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly field: string | null = null,
    readonly line: number | null = null,
  ) {
    super(message);
  }
}

export interface Knobs {
  attempts: string | null;
  backoff: string | null;
  base: string | null;
  cap: string | null;
  jitter: string | null;
  budget: string | null;
  ratio: string | null;
  burst: string | null;
  timeout: string | null;
  deadline: string | null;
  breaker: string | null;
}

export interface Described {
  name: string;
  names: string[];
  toml: string;
  python: string;
  repr: string;
  knobs: Knobs;
  others: string[];
}

export interface ScenarioValues {
  clients: number;
  arrival_rps: number;
  capacity_rps: number;
  outage_at: number;
  outage_lasts: number;
  outage_mode: string;
  timeout: number;
  duration: number;
}

export interface Shipped {
  id: string;
  title: string;
  story: string;
  answer: string;
  values: ScenarioValues;
  outages: Outage[];
  faults: Fault[];
  fixed: (keyof ScenarioValues)[];
  policies: Example[];
  /** The text of the policy file that it was opened from; one that ships has none. */
  file?: string;
}

export interface Example {
  id: string;
  title: string;
  toml: string;
}

export interface Setup {
  version: string;
  scenarios: Shipped[];
  examples: Example[];
  limits: Record<Exclude<keyof ScenarioValues, "outage_mode">, [number, number]>;
  choices: Record<"backoff" | "jitter" | "budget", string[]>;
  seed: number;
}

export interface RunRequest {
  scenario: string;
  values: ScenarioValues;
  seed: number;
  policies: { toml: string; name: string }[];
  file?: string;
}

export type Message =
  | { type: "started"; id: string; outages: Outage[]; faults: Fault[]; duration: number; names: string[] }
  | { type: "progress"; run: number; now: number; until: number; series: Series }
  | { type: "done"; id: string; data: Result }
  | { type: "cancelled" }
  | { type: "error"; message: string; field: string | null };

export class Api {
  constructor(private readonly token: string) {}

  setup(): Promise<Setup> {
    return this.json("GET", "/api/setup");
  }

  /** The run that the page opens with; `null` if it could not be made. */
  story(): Promise<{ id: string; request: RunRequest; data: Result } | null> {
    return this.json("GET", "/api/story");
  }

  policy(toml: string, name: string | null, edit?: { knob: string; value: string }): Promise<Described> {
    return this.json("POST", "/api/policy", { toml, name, edit: edit ?? null });
  }

  /** The scenarios of a policy file, given its text. */
  open(file: string): Promise<Shipped[]> {
    return this.json("POST", "/api/open", { file });
  }

  /** The scenario and the policies as a policy file. */
  save(request: RunRequest): Promise<{ toml: string }> {
    return this.json("POST", "/api/save", request);
  }

  async *run(request: RunRequest, signal: AbortSignal): AsyncGenerator<Message> {
    const response = await this.send("POST", "/api/run", request, signal);
    if (response.body) yield* jsonLines(response.body) as AsyncGenerator<Message>;
  }

  cancel(id: string): Promise<unknown> {
    return this.json("POST", "/api/cancel", { id });
  }

  async report(id: string): Promise<Blob> {
    return (await this.send("POST", "/api/report", { id })).blob();
  }

  private async json<T>(method: string, path: string, body?: unknown): Promise<T> {
    return (await this.send(method, path, body)).json() as Promise<T>;
  }

  private async send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { "X-Stormproof-Token": this.token };
    const init: RequestInit = { method, headers, cache: "no-store", credentials: "omit", redirect: "error" };
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = JSON.stringify(body);
    }
    if (signal) init.signal = signal;
    const response = await fetch(path, init).catch((error: unknown) => {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Refused("The lab does not answer: has `stormproof lab` been stopped?");
    });
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

async function refusal(response: Response): Promise<Refused> {
  try {
    const { error } = (await response.json()) as { error: { message: string; field?: string; line?: number } };
    return new Refused(error.message, error.field ?? null, error.line ?? null);
  } catch {
    return new Refused(`The lab answered ${response.status}.`);
  }
}
