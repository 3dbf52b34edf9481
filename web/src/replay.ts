/**
 * The run as a moving picture of requests: callers send them, they wait, the backend works on them. It is drawn from
 * the columns of the result, so a dot stands for many requests; what it shows at a moment is what the curves say.
 */

import { type Result, bands, letterOf, toneOf } from "./data.ts";
import { h } from "./dom.ts";
import { amount, seconds } from "./format.ts";
import { type Scene, sceneAt, sentence } from "./scene.ts";
import { colour, onThemeChange } from "./theme.ts";

const LANE = 124;
const PLAY_S = 15;
const MOST_LANES = 6;
const DOT = 3;
const GAP = 9;

export class Replay {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { role: "img" });
  private readonly button = h("button.play", { type: "button", id: "play" }, "▶ Play the run");
  private readonly caption = h("p.caption", { id: "moment" });
  private result: Result | null = null;
  private place = 0;
  private started = 0;
  private from = 0;
  private frame = 0;

  /** `moved` is called with the place of the moment that is shown; `null` at the end. */
  constructor(private readonly moved: (place: number | null) => void) {
    const legend = h(
      "p.legend",
      {},
      h("span.dot.first", { "aria-hidden": "true" }),
      "first try ",
      h("span.dot.again", { "aria-hidden": "true" }),
      "retry ",
      h("span.dot.gone", { "aria-hidden": "true" }),
      "its caller has given up",
    );
    this.element = h(
      "section.replay",
      { "aria-label": "The run as a moving picture", hidden: true },
      h("div.bar", {}, this.button, this.caption, legend),
      this.canvas,
    );
    this.button.addEventListener("click", () => (this.frame ? this.pause() : this.play()));
    new ResizeObserver(() => this.draw(0)).observe(this.element);
    onThemeChange(() => this.draw(0));
  }

  show(result: Result): void {
    this.pause();
    this.result = result;
    this.element.hidden = result.runs.every((run) => run.series.time.length === 0);
    const { broken } = this;
    this.place = broken;
    this.draw(0);
  }

  /** Show the moment at a place of the grid. */
  at(place: number): void {
    this.pause();
    this.place = place;
    this.draw(0);
  }

  /** Play the run from its beginning, unless the reader has asked for less motion. */
  invite(): void {
    if (!this.element.hidden && !matchMedia("(prefers-reduced-motion: reduce)").matches) this.play();
  }

  hide(): void {
    this.pause();
    this.element.hidden = true;
  }

  /** A little after the last fault: where the runs of a story part. */
  private get broken(): number {
    if (!this.result) return 0;
    const ends = bands(this.result.scenario).map(({ at, lasts }) => at + lasts);
    const time = this.grid;
    const wanted = Math.min((time.at(-1) ?? 0) * 0.9, Math.max(0, ...ends) * 1.2);
    return Math.max(0, time.findIndex((moment) => moment >= wanted));
  }

  private get grid(): number[] {
    return this.result?.runs[0]?.series.time ?? [];
  }

  private play(): void {
    const last = this.grid.length - 1;
    this.from = this.place >= last - 1 ? 0 : this.place;
    if (!this.element.dataset["played"]) this.from = 0;
    this.element.dataset["played"] = "yes";
    this.started = performance.now();
    this.button.textContent = "❚❚ Pause";
    const step = (now: number): void => {
      const share = (now - this.started) / 1000 / PLAY_S;
      this.place = Math.min(last, Math.floor(this.from + share * last));
      this.draw(now / 1000);
      this.moved(this.place);
      if (this.place >= last) {
        this.pause();
        return this.moved(null);
      }
      this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  private pause(): void {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.button.textContent = "▶ Play the run";
  }

  private draw(clock: number): void {
    const { result } = this;
    if (!result || this.element.hidden || !this.element.isConnected) return;
    const runs = result.runs.slice(0, MOST_LANES);
    const width = Math.max(200, this.element.clientWidth - 2);
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = runs.length * LANE * ratio;
    this.canvas.style.height = `${runs.length * LANE}px`;
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    pen.scale(ratio, ratio);
    const timeout = result.scenario["timeout"];
    const patience = typeof timeout === "number" ? timeout : null;
    const longest = Math.max(1, ...runs.flatMap((run) => run.series.queue.map((value) => value ?? 0)));
    const busiest = Math.max(1, ...runs.flatMap((run) => run.series.received.map((value) => value ?? 0)));
    const words = runs.map((run, i) => {
      const scene = sceneAt(run, this.place, patience);
      const title = `${runs.length > 1 ? `${letterOf(i)} ` : ""}${run.name}`;
      lane(pen, { scene, title, tone: toneOf(i), top: i * LANE, width, longest, busiest, clock });
      return `${title}: ${amount(scene.received)} received a second, ${amount(scene.goodput)} answered in time, ${amount(scene.waiting)} waiting. ${sentence(scene)}`;
    });
    const time = this.grid[this.place] ?? 0;
    const fault = bands(result.scenario).find(({ at, lasts }) => time >= at && time < at + lasts);
    this.caption.textContent = `t = ${seconds(time)}${fault ? `, the fault (${fault.name})` : ""}`;
    this.canvas.setAttribute("aria-label", `At ${seconds(time)}. ${words.join(" ")}`);
  }
}

interface LanePicture {
  scene: Scene;
  title: string;
  tone: string;
  top: number;
  width: number;
  longest: number;
  busiest: number;
  clock: number;
}

/** Callers at the left, the queue before the backend, the backend, and what comes back at the right. */
function lane(pen: CanvasRenderingContext2D, { scene, title, tone, top, width, longest, busiest, clock }: LanePicture): void {
  const ink = colour(`run-${tone}`);
  const muted = colour("muted");
  const middle = top + 78;
  const narrow = width < 560;
  const queueFrom = narrow ? 46 : 130;
  const backend = width - (narrow ? 84 : 150);
  text(pen, title, 12, top + 16, colour("ink"), "600 12.5px system-ui, sans-serif", backend - 20);
  const counts = `${amount(scene.received)}/s in · ${amount(scene.waiting)} waiting · ${amount(scene.goodput)}/s answered in time`;
  text(pen, sentence(scene), 12, top + 33, colour("ink"), "12.5px system-ui, sans-serif", width - 24);
  text(pen, counts, 12, top + 49, muted, "11.5px ui-monospace, monospace", width - 24);

  // The queue, full from the backend on. What has waited longest is served next, and its caller has gone first.
  const rows = 4;
  const columns = Math.max(4, Math.floor((backend - queueFrom - 20) / GAP));
  const room = rows * columns;
  const shown = Math.min(room, Math.ceil(Math.sqrt(scene.waiting / longest) * room));
  const late = scene.waiting > 0 ? Math.round((scene.late / scene.waiting) * shown) : 0;
  for (let i = 0; i < shown; i++) {
    const x = backend - 16 - Math.floor(i / rows) * GAP;
    const y = middle - 14 + (i % rows) * GAP;
    dot(pen, x, y, i < late ? muted : ink, i >= late);
  }
  // Requests on their way: retries are rings.
  const retries = scene.received > 0 ? Math.max(0, 1 - scene.offered / scene.received) : 0;
  const moving = Math.ceil((scene.received / busiest) * 26);
  const end = backend - 24 - Math.ceil(shown / rows) * GAP;
  for (let i = 0; i < moving; i++) {
    const share = (clock * 0.5 + i / Math.max(1, moving)) % 1;
    const x = 14 + share * Math.max(10, end - 14);
    dot(pen, x, middle - 12 + ((i * 7) % 5) * 7, ink, (i * 0.618) % 1 >= retries);
  }
  // The backend, and its answers: in time, or to callers who have gone.
  pen.strokeStyle = scene.working ? colour("ink") : colour("outage-text");
  pen.lineWidth = 1.5;
  pen.strokeRect(backend, middle - 20, 30, 42);
  // What stands where, for a reader who sees such a picture for the first time.
  const small = "10.5px system-ui, sans-serif";
  for (const [word, x] of [["callers", 12], ["waiting", backend - 52], ["server", backend - 1], ["answers", Math.min(backend + 38, width - 44)]] as const) {
    text(pen, word, x, top + 113, muted, small, 60);
  }
  if (!scene.working) text(pen, "✕", backend + 10, middle + 6, colour("outage-text"), "600 14px system-ui, sans-serif", 20);
  const busy = scene.working && (scene.waiting > 0 || scene.goodput > 0);
  const useful = Math.min(1, scene.goodput / Math.max(1, Math.min(scene.offered, scene.received)));
  const answers = busy ? 7 : 0;
  if (busy) dot(pen, backend + 15, middle + 1, useful < 0.5 ? muted : ink, useful >= 0.5);
  for (let i = 0; i < answers; i++) {
    const share = (clock * 0.8 + i / answers) % 1;
    const good = (i * 0.618) % 1 < useful;
    dot(pen, backend + 38 + share * (width - backend - 46), middle + (i % 2) * 8 - 4, good ? ink : muted, good);
  }
}

function dot(pen: CanvasRenderingContext2D, x: number, y: number, ink: string, filled: boolean): void {
  pen.beginPath();
  pen.arc(x, y, DOT, 0, 2 * Math.PI);
  if (filled) {
    pen.fillStyle = ink;
    pen.fill();
  } else {
    pen.strokeStyle = ink;
    pen.lineWidth = 1.2;
    pen.stroke();
  }
}

function text(pen: CanvasRenderingContext2D, words: string, x: number, y: number, ink: string, font: string, most: number): void {
  pen.fillStyle = ink;
  pen.font = font;
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  let shown = words;
  while (shown.length > 4 && pen.measureText(shown).width > most) shown = `${shown.slice(0, -2)}…`;
  pen.fillText(shown, x, y);
}
