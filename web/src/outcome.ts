/** The right-hand side: verdict, figures, strip chart, data, and where it all came from. Live page and report share it. */

import { csv } from "./csv.ts";
import { bands, letterOf, type Result } from "./data.ts";
import { copy, download, fill, h } from "./dom.ts";
import { amount, count, seconds } from "./format.ts";
import { Replay } from "./replay.ts";
import { Strip, type Picture } from "./strip.ts";
import { dataTable } from "./table.ts";
import { showFigures, showVerdict } from "./verdict.ts";

export class Outcome {
  readonly element: HTMLElement;
  private readonly replay: Replay = new Replay((place) => this.strip.point(place));
  readonly strip: Strip = new Strip((place) => this.replay.at(place));
  private readonly verdict = h("div.verdicts", { id: "verdict", role: "status", "aria-live": "polite" });
  private readonly figures = h("div.readout", { id: "figures" });
  private readonly provenance = h("section.provenance", { id: "provenance", "aria-label": "How this was made" });
  private readonly table = dataTable();
  private readonly actions = h("div.actions", { id: "downloads" });
  private readonly after = h("div.after", { hidden: true }, this.actions, this.table.element, this.provenance);
  private result: Result | null = null;

  /** `report` fetches the saved report; without it (in a saved report) the button is absent. */
  constructor(report?: () => Promise<void>, link?: () => string | null) {
    this.element = h(
      "main.outcome",
      { id: "outcome", tabindex: -1 },
      h("h2.spoken", {}, "Outcome"),
      this.verdict,
      this.replay.element,
      this.strip.element,
      this.figures,
      this.after,
    );
    fill(
      this.actions,
      report && h("button", { type: "button", id: "get-report", onclick: () => void report() }, "Download report"),
      link && copyButton("Copy link to this run", link),
      h("button", { type: "button", id: "get-csv", onclick: () => this.save("csv") }, "CSV"),
      h("button", { type: "button", id: "get-json", onclick: () => this.save("json") }, "JSON"),
    );
  }

  /** Say `words` where the verdict will be. */
  say(words: string, kind: "note" | "problem" = "note"): void {
    fill(this.verdict, h(`p.${kind}`, {}, words));
  }

  /** Curves without an outcome: before a run, and while it goes on. */
  draw(picture: Picture): void {
    this.element.classList.add("pending");
    this.replay.hide();
    this.strip.show(picture);
  }

  show(result: Result): void {
    this.result = result;
    this.element.classList.remove("pending");
    this.after.hidden = false;
    showVerdict(this.verdict, result);
    showFigures(this.figures, result);
    this.strip.show(pictureOf(result));
    this.replay.show(result);
    this.table.show(result);
    this.explain(result);
  }

  /** Let the picture of the run move. */
  play(): void {
    this.replay.invite();
  }

  private save(kind: "csv" | "json"): void {
    if (!this.result) return;
    const name = `stormproof-${this.result.runs.map((run) => run.name.replace(/[^\w-]+/g, "-")).join("-vs-")}-${this.result.seed}`;
    if (kind === "csv") download(`${name}.csv`, "text/csv", csv(this.result.runs));
    else download(`${name}.json`, "application/json", JSON.stringify(this.result, null, 1));
  }

  private explain(result: Result): void {
    const scenario = Object.entries(result.scenario)
      .filter(([name, value]) => !["outages", "faults", "name", "step", "resolution"].includes(name) && plain(value))
      .map(([name, value]) => fact(name.replaceAll("_", " "), shown(name, value)));
    const name = result.scenario["name"];
    const faults = bands(result.scenario).map((b) => `${b.name} at ${seconds(b.at)}${b.lasts > 0 ? ` for ${seconds(b.lasts)}` : ""}`);
    fill(
      this.provenance,
      h("h3", {}, "How this was made"),
      h(
        "dl.facts",
        {},
        fact("Stormproof", result.version),
        fact("seed", String(result.seed)),
        fact("engine", result.engine),
        typeof name === "string" && fact("scenario", name),
        ...scenario,
        fact("faults", faults.join("; ") || "none"),
      ),
      ...result.runs.map((run, i) => policyText(run.name, result.runs.length > 1 ? `${letterOf(i)}: ` : "", run.policy)),
    );
  }
}

/** Fields worth a line: numbers, texts and what was switched on. */
const plain = (value: unknown): boolean =>
  (typeof value === "number" && value !== 0) || value === true || (typeof value === "string" && value.length < 60) || isSpread(value);

/** Distribution of a duration, as `Spread.describe()` says it. */
interface SpreadData {
  kind: string;
  mean?: number | null;
  sigma?: number;
}

const isSpread = (value: unknown): value is SpreadData =>
  typeof value === "object" && value !== null && !Array.isArray(value) && "kind" in value;

/** A spread in words: "lognormal, sigma 0.5, mean 20 ms". */
export function spreadText(value: SpreadData & { spread?: string; calls?: number }): string {
  if (value.calls !== undefined) return `a trace of ${count(value.calls)} calls`;
  const kind = value.spread ?? value.kind;
  const sigma = kind === "lognormal" && value.sigma !== undefined ? `, sigma ${amount(value.sigma)}` : "";
  return `${kind}${sigma}${typeof value.mean === "number" ? `, mean ${seconds(value.mean)}` : ""}`;
}

function shown(name: string, value: unknown): string {
  if (isSpread(value)) return spreadText(value);
  if (typeof value !== "number") return String(value);
  if (["duration", "timeout", "deadline"].includes(name)) return seconds(value);
  return name.endsWith("_rps") ? `${amount(value)}/s` : count(value) === amount(value) ? count(value) : amount(value);
}

const fact = (name: string, value: string): HTMLElement => h("div", {}, h("dt", {}, name), h("dd", {}, value));

function policyText(name: string, letter: string, text: { repr: string; toml: string | null; python: string | null }): HTMLElement {
  const button = (label: string, source: string | null): HTMLElement | false =>
    source !== null && copyButton(label, () => source);
  return h(
    "details.policy-text",
    {},
    h("summary", {}, `Policy ${letter}${name}`),
    h("pre", { tabindex: 0 }, text.repr),
    h("div.actions", {}, button("Copy as Python", text.python), button("Copy as TOML", text.toml)),
  );
}

/** A button that copies what `source` gives, and says that it did. */
export function copyButton(label: string, source: () => string | null): HTMLElement {
  const button = h("button", { type: "button" }, label);
  button.addEventListener("click", () => {
    const text = source();
    if (text === null) return;
    void copy(text).then((done) => {
      button.textContent = done ? "Copied" : "Could not copy";
      setTimeout(() => (button.textContent = label), 1500);
    });
  });
  return button;
}

export function pictureOf(result: Result): Picture {
  return { runs: result.runs, bands: bands(result.scenario), duration: result.scenario.duration };
}
