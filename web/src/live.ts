/** The live page: what is asked on the left, what comes out on the right. */

import { Api, type Message, Refused, type RunRequest, type Setup } from "./api.ts";
import { bands, emptySeries } from "./data.ts";
import { packed, unpacked } from "./link.ts";
import { download, fill, h } from "./dom.ts";
import { percent } from "./format.ts";
import { Outcome } from "./outcome.ts";
import { PolicyEditor } from "./policy.ts";
import { ScenarioPanel } from "./scenario.ts";
import type { Picture } from "./strip.ts";

/** Up to this width the page has one column: see style.css. */
const ONE_COLUMN = 860;
const LARGEST_FILE = 64 * 1024;

export class Live {
  readonly element: HTMLElement;
  private readonly outcome = new Outcome(() => this.report(), () => this.link());
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
  /** The request that led to the outcome on the page. */
  private asked: RunRequest | null = null;
  private live: Picture = { runs: [], bands: [], duration: 1 };
  private come: number[] = [];
  private drawn = false;
  private began = 0;

  constructor(
    private readonly api: Api,
    setup: Setup,
  ) {
    this.scenario = new ScenarioPanel(setup, () => this.preview(), () => this.offer(), { open: (file) => void this.open(file), save: () => void this.save() });
    this.editors = [new PolicyEditor(api, setup, 0), new PolicyEditor(api, setup, 1)];
    this.element = this.build();
    this.overlay.addEventListener("change", () => this.second());
    this.stop.addEventListener("click", () => void this.cancel());
    document.addEventListener("keydown", (event) => this.key(event));
    this.second();
    this.offer();
  }

  /** The policies of the scenario: the first one is the problem, the last one the answer. */
  private offer(): void {
    const { policies } = this.scenario.current;
    this.editors[0].offer(policies, policies[0]);
    this.editors[1].offer(policies, policies.at(-1));
  }

  /** Called when the page is in the document and has a width: show the run of the address, or the story. */
  async begin(): Promise<void> {
    this.preview();
    const text = new URLSearchParams(location.hash.slice(1)).get("run");
    const wanted = text === null ? null : unpacked(text);
    if (wanted) {
      try {
        await this.restore(wanted);
      } catch (error) {
        return this.fail(error);
      }
      return this.start();
    }
    this.outcome.say(text === null ? "The story is being run…" : "This link holds no run that can be read.", text === null ? "note" : "problem");
    const story = await this.api.story().catch(() => null);
    if (this.aborting || this.finished !== null) return;
    if (story === null) return this.outcome.say("Choose a policy and a situation, then run.");
    await this.restore(story.request);
    if (this.aborting || this.finished !== null) return;
    this.finished = story.id;
    this.asked = story.request;
    if (text === null) {
      this.outcome.show(story.data);
      this.outcome.play();
    }
    this.state.textContent = "an example";
  }

  /** Put a run's scenario and policies into the form. */
  private async restore(request: RunRequest): Promise<void> {
    if (request.file !== undefined) this.scenario.add(await this.api.open(request.file));
    this.scenario.take(request);
    const { policies } = request;
    this.overlay.checked = policies.length > 1;
    this.second();
    await Promise.all(policies.slice(0, 2).map((policy, i) => this.editors[i]?.take(policy)));
  }

  /** Take the scenarios and the policies of a policy file. */
  private async open(file: File): Promise<void> {
    try {
      if (file.size > LARGEST_FILE) throw new Refused(`${file.name} is larger than 64 KiB`);
      this.scenario.add(await this.api.open(await file.text()));
      this.outcome.say(`${file.name} is open: run it.`);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Give the scenario and the policies of the form away as a policy file. */
  private async save(): Promise<void> {
    try {
      const request = await this.request();
      if (request) download(`${request.scenario}.toml`, "application/toml", (await this.api.save(request)).toml);
    } catch (error) {
      this.fail(error);
    }
  }

  /** The request of the form; `null`, with a message, while a policy's text is wrong. */
  private async request(): Promise<RunRequest | null> {
    const editors = this.overlay.checked ? this.editors : [this.editors[0]];
    for (const editor of editors) {
      if (await editor.ready()) continue;
      this.outcome.say(`Policy ${editor.letter} cannot be run: see the message below it.`, "problem");
      return null;
    }
    return { ...this.scenario.request, policies: editors.map((editor) => editor.chosen as { toml: string; name: string }) };
  }

  /** The address of the run that is shown, without this server's token. */
  private link(): string | null {
    return this.asked && `${location.origin}/#run=${packed(this.asked)}`;
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
      const request = await this.request();
      if (!request) return;
      this.outcome.say("Running…");
      // In one column the outcome is above what was asked.
      const { element } = this.outcome;
      if (innerWidth <= ONE_COLUMN && element.getBoundingClientRect().top < 0) element.scrollIntoView({ block: "start" });
      this.began = performance.now();
      this.drawn = false;
      for await (const message of this.api.run(request, this.aborting.signal)) {
        if (message.type === "done") this.asked = request;
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
        this.outcome.show(message.data);
        // A short run is over before a frame has been painted.
        this.note(this.began);
        this.state.textContent = "done";
        break;
      case "cancelled":
        this.state.textContent = "cancelled";
        this.outcome.say("Cancelled. What had been simulated by then is still drawn.");
        break;
      case "error":
        this.fail(new Refused(message.message, message.field));
    }
  }

  private painted(): void {
    if (this.drawn) return;
    this.drawn = true;
    const { began } = this;
    requestAnimationFrame(() => setTimeout(() => this.note(began)));
  }

  /** Note how long the first curves of the run begun at `began` took to appear, for measurements of the page. */
  private note(began: number): void {
    if (began === this.began) this.outcome.element.dataset["firstPaint"] ??= (performance.now() - began).toFixed(0);
  }

  private fail(error: unknown): void {
    const { message, field, line } = error instanceof Refused ? error : new Refused(String(error));
    this.state.textContent = "stopped";
    const place = [line === null ? "" : `line ${line}`, field === null || this.scenario.names(field) ? "" : field];
    this.outcome.say([...place, message].filter(Boolean).join(": "), "problem");
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

/** Message shown when the server does not answer. */
export function trouble(words: string): HTMLElement {
  const place = h("main.trouble", {});
  fill(place, h("h2", {}, "The lab cannot start"), h("p", {}, words));
  return place;
}
