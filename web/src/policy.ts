/** The editor of one policy: knobs for what is changed most, the file's text for everything. */

import { type Api, type Described, type Example, type Knobs, Refused, type Setup } from "./api.ts";
import { letterOf, marked } from "./data.ts";
import { fill, h } from "./dom.ts";
import { copyButton } from "./outcome.ts";

const PAUSE_MS = 350;
const LARGEST_FILE = 64 * 1024;

interface Knob {
  id: keyof Knobs;
  label: string;
  hint: string;
  choices?: "backoff" | "jitter" | "budget";
}

const KNOBS: readonly Knob[] = [
  { id: "attempts", label: "Attempts", hint: "the first one counts; none for no bound" },
  { id: "timeout", label: "Timeout", hint: "of one attempt: 500ms, 2s; none for none" },
  { id: "deadline", label: "Deadline", hint: "of the whole call; none for none" },
  { id: "backoff", label: "Backoff", hint: "how waits grow", choices: "backoff" },
  { id: "base", label: "Base", hint: "the first wait" },
  { id: "cap", label: "Cap", hint: "the longest wait" },
  { id: "budget", label: "Budget", hint: "what pays for retries", choices: "budget" },
  { id: "ratio", label: "Ratio", hint: "retries earned per call" },
  { id: "burst", label: "Burst", hint: "retries it starts with" },
  { id: "jitter", label: "Jitter", hint: "how waits are spread", choices: "jitter" },
];

export class PolicyEditor {
  readonly element: HTMLElement;
  readonly letter: string;
  private readonly inputs = new Map<keyof Knobs, HTMLInputElement | HTMLSelectElement>();
  private readonly text: HTMLTextAreaElement;
  private readonly problem: HTMLElement;
  private readonly others = h("p.others");
  private readonly names: HTMLSelectElement;
  private readonly whichPolicy: HTMLElement;
  private readonly example: HTMLSelectElement;
  private offered: Example[] = [];
  private described: Described | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asked = 0;

  constructor(
    private readonly api: Api,
    private readonly setup: Setup,
    readonly run: number,
  ) {
    this.letter = letterOf(run);
    this.text = h("textarea", {
      id: this.id("toml"),
      rows: 9,
      spellcheck: "false",
      autocomplete: "off",
      autocapitalize: "off",
      "aria-describedby": this.id("problem"),
    });
    this.problem = h("p.problem", { id: this.id("problem"), role: "alert" });
    this.names = h("select", { id: this.id("name") });
    this.example = h("select", { id: this.id("example") });
    this.whichPolicy = h("div.field.wide", { hidden: true }, h("label", { for: this.id("name") }, "Policy of the file"), this.names);
    this.element = this.build();
    this.text.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => void this.check(), PAUSE_MS);
    });
    this.names.addEventListener("change", () => void this.check());
  }

  /** The policy of a request; `null` while the text is wrong. */
  get chosen(): { toml: string; name: string } | null {
    return this.described && { toml: this.text.value, name: this.described.name };
  }

  async load(toml: string, name: string | null = null): Promise<void> {
    this.text.value = toml;
    fill(this.names, name !== null && h("option", { value: name }, name));
    await this.check();
  }

  /** Take a policy from elsewhere: a link, or the story. */
  async take(policy: { toml: string; name: string }): Promise<void> {
    const known = this.offered.find(({ toml }) => toml === policy.toml);
    this.example.value = known?.id ?? "";
    await this.load(policy.toml, policy.name);
  }

  /** Wait for a check that is under way or due; whether the text is right. */
  async ready(): Promise<boolean> {
    clearTimeout(this.timer);
    await this.check();
    return this.described !== null;
  }

  private id(name: string): string {
    return `${name}-${this.letter.toLowerCase()}`;
  }

  private build(): HTMLElement {
    return h(
      "fieldset.policy",
      { ...marked(this.run), id: this.id("policy") },
      h("legend", {}, h("span.letter", {}, this.letter), "Policy ", this.letter),
      this.examples(),
      h("div.knobs", {}, ...KNOBS.map((knob) => this.knob(knob)), this.breaker()),
      this.others,
      this.whichPolicy,
      this.file(),
      this.problem,
      h(
        "div.actions",
        {},
        copyButton("Copy as Python", () => this.described?.python ?? null),
        copyButton("Copy as TOML", () => this.described && this.text.value),
      ),
    );
  }

  /** Offer the policies of a scenario; `first` is taken at once unless the reader has made their own. */
  offer(policies: Example[], first: Example | undefined): void {
    const untouched = this.example.value !== "" || this.text.value === "";
    this.offered = [...policies, ...this.setup.examples];
    const options = (examples: Example[]): HTMLElement[] => examples.map(({ id, title }) => h("option", { value: id }, title));
    fill(
      this.example,
      h("option", { value: "" }, "your own"),
      h("optgroup", { label: "Of this situation" }, ...options(policies)),
      h("optgroup", { label: "In general" }, ...options(this.setup.examples)),
    );
    this.example.value = untouched && first ? first.id : "";
    if (untouched && first) void this.load(first.toml);
  }

  private examples(): HTMLElement {
    this.example.addEventListener("change", () => {
      const example = this.offered.find(({ id }) => id === this.example.value);
      if (example) void this.load(example.toml);
    });
    this.text.addEventListener("input", () => (this.example.value = ""));
    return h("div.field.wide", {}, h("label", { for: this.example.id }, "Start from"), this.example);
  }

  private knob({ id, label, hint, choices }: Knob): HTMLElement {
    const name = this.id(id);
    const input = choices
      ? h("select", { id: name, title: hint }, ...this.setup.choices[choices].map((value) => h("option", { value }, value)))
      : h("input", { id: name, title: hint, type: "text", autocomplete: "off", spellcheck: "false" });
    input.addEventListener("change", () => void this.edit(id, input.value.trim()));
    this.inputs.set(id, input);
    return h("div.field", {}, h("label", { for: name }, label), input);
  }

  private breaker(): HTMLElement {
    const input = h("input", { id: this.id("breaker"), type: "checkbox" });
    input.addEventListener("change", () => void this.edit("breaker", input.checked ? "on" : "none"));
    this.inputs.set("breaker", input);
    return h("div.field.check", {}, input, h("label", { for: input.id }, "Breaker"));
  }

  private file(): HTMLElement {
    const chooser = h("input.offscreen", { type: "file", id: this.id("file"), accept: ".toml", tabindex: -1, "aria-hidden": "true" });
    chooser.addEventListener("change", () => void this.read(chooser));
    return h(
      "details.file",
      {},
      h("summary", {}, "Policy file (TOML)"),
      h("label.spoken", { for: this.text.id }, `Policy ${this.letter} as TOML`),
      this.text,
      chooser,
      h("button.quiet", { type: "button", onclick: () => chooser.click() }, "Load a file…"),
    );
  }

  private async read(chooser: HTMLInputElement): Promise<void> {
    const file = chooser.files?.[0];
    if (!file) return;
    if (file.size > LARGEST_FILE) this.refuse(new Refused(`${file.name} is larger than 64 KiB`));
    else {
      this.example.value = "";
      await this.load(await file.text());
    }
    chooser.value = "";
  }

  private async edit(knob: keyof Knobs, value: string): Promise<void> {
    await this.ask({ knob, value });
  }

  private async check(): Promise<void> {
    await this.ask();
  }

  /** Ask the server what the text means; only the answer to the last question counts. */
  private async ask(edit?: { knob: string; value: string }): Promise<void> {
    const number = ++this.asked;
    const text = this.text.value;
    try {
      const described = await this.api.policy(text, this.names.value || null, edit);
      if (number !== this.asked) return;
      if (edit) {
        this.text.value = described.toml;
        this.example.value = "";
      }
      this.accept(described);
    } catch (error) {
      if (number !== this.asked) return;
      if (!edit) this.described = null;
      this.refuse(error);
    }
  }

  private accept(described: Described): void {
    this.described = described;
    this.problem.textContent = "";
    this.text.removeAttribute("aria-invalid");
    for (const [id, input] of this.inputs) {
      const value = described.knobs[id];
      input.removeAttribute("aria-invalid");
      input.disabled = value === null;
      if (input instanceof HTMLInputElement && input.type === "checkbox") input.checked = value === "on";
      else if (input instanceof HTMLSelectElement) select(input, value ?? "");
      else input.value = value ?? "";
    }
    this.others.textContent = described.others.length ? `Also in the file: ${described.others.join(", ")}` : "";
    fill(this.names, ...described.names.map((name) => h("option", { value: name }, name)));
    this.names.value = described.name;
    this.whichPolicy.hidden = described.names.length < 2;
  }

  private refuse(error: unknown): void {
    const { message, field, line } = error instanceof Refused ? error : new Refused(String(error));
    this.problem.textContent = [line === null ? "" : `line ${line}`, field ?? "", message].filter(Boolean).join(": ");
    const knob = [...this.inputs.keys()].find((id) => field !== null && field.split(".").at(-1) === id);
    const input = knob && this.inputs.get(knob);
    (input ?? this.text).setAttribute("aria-invalid", "true");
  }
}

/** Choose `value`, which a file may have although the list has not. */
function select(input: HTMLSelectElement, value: string): void {
  if (value && ![...input.options].some((option) => option.value === value)) {
    input.append(h("option", { value }, value));
  }
  input.value = value;
}
