/** The live page: what is asked on the left, what comes out on the right. */

import { Api, type Message, Refused, type Setup } from "./api.ts";
import { bands, emptySeries } from "./data.ts";
import { download, fill, h } from "./dom.ts";
import { percent } from "./format.ts";
import { Outcome } from "./outcome.ts";
import { PolicyEditor } from "./policy.ts";
import { ScenarioPanel } from "./scenario.ts";
import type { Picture } from "./strip.ts";

export class Live {
  readonly element: HTMLElement;
  private readonly outcome = new Outcome(() => this.report());
  private readonly scenario: ScenarioPanel;
  private readonly editors: [PolicyEditor, PolicyEditor];
  private readonly overlay = h("input", { id: "overlay", type: "checkbox" });
  private readonly run = h("button.primary", { type: "submit", id: "run", "aria-keyshortcuts": "Control+Enter Meta+Enter" }, "Run ", h("kbd", {}, "Ctrl ↵"));
  private readonly stop = h("button", { type: "button", id: "cancel", disabled: true }, "Cancel");
  private readonly bar = h("progress", { id: "progress", max: 1, value: 0, "aria-label": "Progress of the run" });
  private readonly state = h("span.state", { id: "state" }, "ready");
  private aborting: AbortController | null = null;
  private running: string | null = null;
  private finished: string | null = null;
  private live: Picture = { runs: [], bands: [], duration: 1 };
  private come: number[] = [];
  private drawn = false;
  private began = 0;

  constructor(
    private readonly api: Api,
    setup: Setup,
  ) {
    this.scenario = new ScenarioPanel(setup, () => this.preview(), () => this.offer());
    this.editors = [new PolicyEditor(api, setup, "A"), new PolicyEditor(api, setup, "B")];
    this.element = this.build();
    this.overlay.addEventListener("change", () => this.second());
    this.stop.addEventListener("click", () => void this.cancel());
    document.addEventListener("keydown", (event) => this.key(event));
    this.second();
    this.offer();
  }

  /** The policies of the scenario: the last one is the answer, the first one the problem. */
  private offer(): void {
    const { policies } = this.scenario.current;
    this.editors[0].offer(policies, policies.at(-1));
    this.editors[1].offer(policies, policies[0]);
  }

  /** Called when the page is in the document and has a width. */
  begin(): void {
    this.outcome.say("Choose a policy and a situation, then run. The strip below shows the load and the outage to come.");
    this.preview();
  }

  private build(): HTMLElement {
    const form = h(
      "form.controls",
      { id: "controls", "aria-label": "What to simulate" },
      h("h2.spoken", {}, "What to simulate"),
      this.scenario.element,
      this.editors[0].element,
      h("div.field.check.overlay", {}, this.overlay, h("label", { for: "overlay" }, "Overlay a second policy")),
      this.editors[1].element,
      h("div.runbar", {}, this.run, this.stop, h("div.meter", {}, this.bar, this.state)),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.start();
    });
    return h("div.layout", {}, form, this.outcome.element);
  }

  private second(): void {
    this.editors[1].element.hidden = !this.overlay.checked;
    (this.editors[1].element as HTMLFieldSetElement).disabled = !this.overlay.checked;
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void this.start();
    } else if (event.key === "Escape" && this.aborting) {
      void this.cancel();
    }
  }

  private preview(): void {
    if (!this.aborting) this.outcome.draw(this.scenario.preview);
  }

  private async start(): Promise<void> {
    if (this.aborting) return;
    this.aborting = new AbortController();
    this.busy(true);
    try {
      const editors = this.overlay.checked ? this.editors : [this.editors[0]];
      for (const editor of editors) {
        if (!(await editor.ready())) return this.outcome.say(`Policy ${editor.letter} cannot be run: see the message below it.`, "problem");
      }
      const policies = editors.map((editor) => editor.chosen as { toml: string; name: string });
      this.outcome.say("Running…");
      // In one column the outcome is below what was asked.
      const { element } = this.outcome;
      if (element.offsetTop > innerHeight / 2) element.scrollIntoView({ block: "start" });
      this.began = performance.now();
      this.drawn = false;
      for await (const message of this.api.run({ ...this.scenario.request, policies }, this.aborting.signal)) {
        this.take(message);
      }
    } catch (error) {
      if (!(error instanceof DOMException && error.name === "AbortError")) this.fail(error);
    } finally {
      this.aborting = null;
      this.running = null;
      this.busy(false);
    }
  }

  private take(message: Message): void {
    switch (message.type) {
      case "started":
        this.running = message.id;
        this.live = { runs: message.names.map((name) => ({ name, series: emptySeries() })), bands: bands(message), duration: message.duration };
        this.come = message.names.map(() => 0);
        break;
      case "progress": {
        const run = this.live.runs[message.run];
        if (run) run.series = message.series;
        this.come[message.run] = message.now / message.until;
        const share = this.come.reduce((sum, part) => sum + part, 0) / this.come.length;
        this.bar.value = share;
        this.state.textContent = percent(Math.floor(share * 100) / 100);
        this.outcome.draw(this.live);
        this.painted();
        break;
      }
      case "done":
        this.finished = message.id;
        this.bar.value = 1;
        this.state.textContent = "done";
        this.outcome.show(message.data);
        this.painted();
        break;
      case "cancelled":
        this.state.textContent = "cancelled";
        this.outcome.say("Cancelled. What had been simulated by then is still drawn.");
        break;
      case "error":
        this.fail(new Refused(message.message, message.field));
    }
  }

  /** Note how long the first curves of this run took to appear, for whoever measures the page. */
  private painted(): void {
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() =>
      setTimeout(() => (this.outcome.element.dataset["firstPaint"] = (performance.now() - this.began).toFixed(0))),
    );
  }

  private fail(error: unknown): void {
    const { message, field } = error instanceof Refused ? error : new Refused(String(error));
    this.state.textContent = "stopped";
    this.outcome.say(field ? `${field}: ${message}` : message, "problem");
  }

  private async cancel(): Promise<void> {
    if (this.running === null) return this.aborting?.abort();
    await this.api.cancel(this.running).catch(() => this.aborting?.abort());
  }

  private busy(busy: boolean): void {
    this.run.disabled = busy;
    this.stop.disabled = !busy;
    this.element.classList.toggle("busy", busy);
    if (busy) {
      this.bar.value = 0;
      this.state.textContent = "starting";
      delete this.outcome.element.dataset["firstPaint"];
    } else if (this.state.textContent === "starting") {
      this.state.textContent = "ready";
    }
  }

  private async report(): Promise<void> {
    if (this.finished === null) return;
    try {
      download("stormproof-report.html", "text/html", await this.api.report(this.finished));
    } catch (error) {
      this.fail(error);
    }
  }
}

/** What is shown when there is no talking to the server. */
export function trouble(words: string): HTMLElement {
  const place = h("main.trouble", {});
  fill(place, h("h2", {}, "The lab cannot start"), h("p", {}, words));
  return place;
}
