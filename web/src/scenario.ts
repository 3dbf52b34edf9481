/** The scenario: one of those that ship or of a file, and sliders to change it. */

import type { RunRequest, ScenarioValues, Setup, Shipped } from "./api.ts";
import type { Outage, Series } from "./data.ts";
import { bands, emptySeries } from "./data.ts";
import { fill, h } from "./dom.ts";
import { amount, count, seconds } from "./format.ts";
import { type Scale, STEPS, positionOf, valueAt } from "./scale.ts";
import type { Picture } from "./strip.ts";

type Numeric = Exclude<keyof ScenarioValues, "outage_mode">;

interface Slider {
  id: Numeric;
  label: string;
  unit: string;
  log: boolean;
  whole: boolean;
  spoken: (value: number) => string;
}

const rate = (value: number): string => `${amount(value)} a second`;

const SLIDERS: readonly Slider[] = [
  { id: "clients", label: "Clients", unit: "", log: true, whole: true, spoken: count },
  { id: "arrival_rps", label: "Arrivals", unit: "/s", log: true, whole: false, spoken: rate },
  { id: "capacity_rps", label: "Capacity", unit: "/s", log: true, whole: false, spoken: rate },
  { id: "outage_at", label: "Outage at", unit: "s", log: false, whole: false, spoken: seconds },
  { id: "outage_lasts", label: "Outage lasts", unit: "s", log: true, whole: false, spoken: seconds },
  { id: "timeout", label: "Timeout", unit: "s", log: true, whole: false, spoken: seconds },
  { id: "duration", label: "Duration", unit: "s", log: true, whole: false, spoken: seconds },
];

/** Key of a scenario in the list; one of a file may have the name of one that ships. */
const optionOf = ({ id, file }: Shipped): string => (file === undefined ? id : `file:${id}`);

export class ScenarioPanel {
  readonly element: HTMLElement;
  private readonly ranges = new Map<Numeric, HTMLInputElement>();
  private readonly numbers = new Map<Numeric, HTMLInputElement>();
  private readonly story = h("p.story");
  private readonly answer = h("p.answer");
  private readonly known = h("details.expected", {}, h("summary", {}, "What is known about it"), this.answer);
  private readonly clamped = h("p.clamped", { id: "clamped", role: "status" });
  private readonly chooser: HTMLSelectElement;
  private readonly mode: HTMLSelectElement;
  private readonly seed: HTMLInputElement;
  private readonly shipped: Shipped[];
  private opened: Shipped[] = [];
  current: Shipped;
  values: ScenarioValues;

  constructor(
    private readonly setup: Setup,
    private readonly changed: () => void,
    private readonly chosen: () => void,
    private readonly files: { open: (file: File) => void; save: () => void },
  ) {
    this.shipped = setup.scenarios;
    this.current = setup.scenarios[0] as Shipped;
    this.values = { ...this.current.values };
    this.chooser = h("select", { id: "scenario" });
    this.list();
    this.mode = h(
      "select",
      { id: "outage_mode" },
      h("option", { value: "hang" }, "hang: requests wait"),
      h("option", { value: "fail" }, "fail: 503 at once"),
    );
    this.seed = h("input", { id: "seed", type: "number", min: 0, max: 2 ** 32 - 1, step: 1, value: setup.seed });
    this.element = this.build();
    this.chooser.addEventListener("change", () => this.choose(this.all.find((each) => optionOf(each) === this.chooser.value)));
    this.mode.addEventListener("change", () => this.set("outage_mode", this.mode.value));
    this.show();
  }

  get request(): { scenario: string; values: ScenarioValues; seed: number; file?: string } {
    const { id, file } = this.current;
    const asked = { scenario: id, values: this.values, seed: Math.max(0, Math.trunc(this.seed.valueAsNumber || 0)) };
    return file === undefined ? asked : { ...asked, file };
  }

  private get all(): Shipped[] {
    return [...this.opened, ...this.shipped];
  }

  /** Offer the scenarios of a file before those that ship. */
  add(scenarios: Shipped[]): void {
    this.opened = scenarios;
    this.list();
    this.choose(scenarios[0]);
  }

  private list(): void {
    fill(this.chooser, ...this.all.map((each) => h("option", { value: optionOf(each) }, each.title)));
  }

  /** Curves of the strip before a run: the offered load, the capacity and the outage. */
  get preview(): Picture {
    const { duration, arrival_rps, capacity_rps } = this.values;
    const series: Series = { ...emptySeries(), time: [0, duration], offered: [arrival_rps, arrival_rps], capacity: [capacity_rps, capacity_rps] };
    return { runs: [{ name: "", series }], bands: bands({ outages: this.outages, faults: this.current.faults }), duration };
  }

  private get outages(): Outage[] {
    if (this.current.fixed.includes("outage_at")) return this.current.outages;
    const { outage_at, outage_lasts, outage_mode } = this.values;
    return outage_lasts > 0 ? [{ at: outage_at, lasts: outage_lasts, mode: outage_mode }] : [];
  }

  private build(): HTMLElement {
    return h(
      "fieldset.scenario",
      { id: "scenario-panel" },
      h("legend", {}, "Scenario"),
      h("div.field.wide", {}, h("label", { for: "scenario" }, "Situation"), this.chooser),
      this.actions(),
      this.story,
      ...SLIDERS.map((slider) => this.slider(slider)),
      this.clamped,
      h("div.field.wide", {}, h("label", { for: "outage_mode" }, "Outage mode"), this.mode),
      h("div.field.wide", {}, h("label", { for: "seed" }, "Seed"), this.seed),
      this.known,
    );
  }

  private actions(): HTMLElement {
    const chooser = h("input.offscreen", { type: "file", id: "scenario-file", accept: ".toml", tabindex: -1, "aria-hidden": "true" });
    chooser.addEventListener("change", () => {
      const file = chooser.files?.[0];
      if (file) this.files.open(file);
      chooser.value = "";
    });
    return h(
      "div.actions",
      {},
      chooser,
      h("button.quiet", { type: "button", id: "open-scenario", onclick: () => chooser.click() }, "Open a file…"),
      h("button.quiet", { type: "button", id: "save-scenario", onclick: () => this.files.save() }, "Save as a file"),
    );
  }

  private scale(slider: Slider): Scale {
    const [min, max] = this.setup.limits[slider.id];
    return { min, max, log: slider.log, whole: slider.whole };
  }

  private slider(slider: Slider): HTMLElement {
    const scale = this.scale(slider);
    const range = h("input", { type: "range", id: slider.id, min: 0, max: STEPS, step: 1 });
    const number = h("input", {
      type: "number",
      id: `${slider.id}-number`,
      min: scale.min,
      max: scale.max,
      step: slider.whole ? 1 : "any",
      "aria-label": `${slider.label}${slider.unit && `, ${slider.unit}`}`,
    });
    range.addEventListener("input", () => this.set(slider.id, valueAt(scale, Number(range.value))));
    number.addEventListener("change", () => {
      const value = number.valueAsNumber;
      if (Number.isFinite(value)) this.enter(slider, scale, value);
      else this.show();
    });
    this.ranges.set(slider.id, range);
    this.numbers.set(slider.id, number);
    return h("div.slider", {}, h("label", { for: slider.id }, slider.label), range, number, h("span.unit", {}, slider.unit));
  }

  /** Take a number that was typed; one beyond the page's limits is not taken in silence. */
  private enter(slider: Slider, scale: Scale, value: number): void {
    const held = Math.min(scale.max, Math.max(scale.min, value));
    this.set(slider.id, held);
    if (held === value) return;
    const limit = value > held ? `the page goes up to ${count(held)}` : `the page begins at ${amount(held)}`;
    this.clamped.textContent = `${slider.label}: ${amount(value)} was typed, and ${limit}${slider.unit && ` ${slider.unit}`}; this limit holds only on the page.`;
  }

  /** Take the scenario, the values and the seed of a run. */
  take({ scenario, values, seed, file }: RunRequest): void {
    this.choose(this.all.find((each) => each.id === scenario && each.file === file));
    this.values = { ...this.values, ...values };
    this.seed.value = String(seed);
    this.show();
    this.changed();
  }

  /** True if a field of a request is one of these controls; error messages use its name. */
  names(field: string): boolean {
    return field === "seed" || field in this.values;
  }

  private choose(found: Shipped | undefined): void {
    if (!found) return;
    this.chooser.value = optionOf(found);
    this.current = found;
    this.values = { ...found.values };
    this.show();
    this.chosen();
    this.changed();
  }

  private set<K extends keyof ScenarioValues>(id: K, value: ScenarioValues[K]): void {
    this.values[id] = value;
    this.clamped.textContent = "";
    this.show();
    this.changed();
  }

  private show(): void {
    this.story.textContent = this.current.story;
    this.answer.textContent = this.current.answer;
    this.known.hidden = this.current.answer === "";
    for (const slider of SLIDERS) {
      const range = this.ranges.get(slider.id) as HTMLInputElement;
      const number = this.numbers.get(slider.id) as HTMLInputElement;
      const value = this.values[slider.id];
      range.value = String(positionOf(this.scale(slider), value));
      range.setAttribute("aria-valuetext", slider.spoken(value));
      number.value = String(value);
      range.disabled = number.disabled = this.current.fixed.includes(slider.id);
    }
    this.mode.value = this.values.outage_mode;
    this.mode.disabled = this.current.fixed.includes("outage_mode");
  }
}
