/**
 * The strip chart: one channel above the other on one time axis, as a chart recorder draws them.
 * The outage is one hatched band through all of them; beside each channel stand its readings.
 */

import uPlot from "uplot";
import { CHANNELS, type Channel, type Trace, isShared, nearest, onGrid, sharedTime, whole } from "./channels.ts";
import { type Band, type Metrics, type Series, letterOf, marked, toneOf } from "./data.ts";
import { h } from "./dom.ts";
import { amount, seconds } from "./format.ts";
import { colour, onThemeChange } from "./theme.ts";

export interface Picture {
  runs: { name: string; series: Series; metrics?: Metrics }[];
  bands: Band[];
  duration: number;
}

interface Cell {
  run: number;
  trace: Trace;
  value: HTMLElement;
  /** Says what the value is: the peak of the run, its mean, or the value now. */
  kind: HTMLElement;
}

interface Lane {
  channel: Channel;
  plot: HTMLElement;
  readings: HTMLElement;
  cells: Cell[];
  chart: uPlot | null;
}

const DASHES: readonly (number[] | null)[] = [null, [7, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 4]];
const AXIS = 46;

export class Strip {
  readonly element: HTMLElement;
  private readonly lanes: Lane[];
  private readonly clock = h("output.clock", { for: "playhead" });
  private readonly playhead = h("input", {
    type: "range",
    id: "playhead",
    min: 0,
    max: 0,
    step: 1,
    value: 0,
    "aria-label": "Moment to read",
  });
  private picture: Picture = { runs: [], bands: [], duration: 1 };
  private zoomed: [number, number] | null = null;
  private at: number | null = null;
  private following = false;

  /** `chosen` is called with the place that the reader chose with the slider. */
  constructor(chosen: (place: number) => void = () => undefined) {
    this.lanes = CHANNELS.map((channel) => this.lane(channel));
    const rows = this.lanes.map(({ channel, plot, readings }) =>
      h("section.lane", { "aria-label": channel.title, "data-channel": channel.id }, readings, plot),
    );
    const whole = h("button.quiet", { type: "button", id: "whole", onclick: () => this.zoom(null) }, "Whole run");
    this.element = h(
      "div.strip",
      {},
      ...rows,
      h("div.playhead", {}, h("div.now", {}, this.clock, whole), this.playhead),
    );
    this.playhead.addEventListener("input", () => {
      this.point(Number(this.playhead.value));
      chosen(Number(this.playhead.value));
    });
    new ResizeObserver(() => this.resize()).observe(this.element);
    onThemeChange(() => this.rebuild());
  }

  /** Show `picture`; charts are made anew only when the number of runs has changed. */
  show(picture: Picture): void {
    const same = picture.runs.length === this.picture.runs.length && this.lanes.every((lane) => lane.chart);
    if (picture.duration !== this.picture.duration) this.zoomed = null;
    this.picture = picture;
    if (same) this.update();
    else this.rebuild();
  }

  private lane(channel: Channel): Lane {
    return { channel, plot: h("div.plot"), readings: h("div.readings"), cells: [], chart: null };
  }

  private rebuild(): void {
    if (!this.element.isConnected) return;
    for (const lane of this.lanes) {
      lane.chart?.destroy();
      this.label(lane);
      lane.chart = new uPlot(this.options(lane), this.data(lane.channel), lane.plot);
    }
    this.settle();
  }

  private update(): void {
    for (const lane of this.lanes) lane.chart?.setData(this.data(lane.channel), true);
    this.settle();
  }

  private resize(): void {
    for (const lane of this.lanes) lane.chart?.setSize(this.size(lane));
  }

  /** After new data: the slider's range, and the readings. */
  private settle(): void {
    const last = Math.max(0, sharedTime(this.picture.runs).length - 1);
    this.playhead.max = String(last);
    if (this.at !== null && this.at > last) this.at = null;
    this.read();
  }

  private size(lane: Lane): { width: number; height: number } {
    const narrow = this.element.clientWidth < 620;
    const tall = lane.channel.id === "load" ? 24 : 0;
    const axis = this.isLast(lane) ? 26 : 0;
    // With many runs the readings beside a channel are taller than it would be.
    const rows = narrow ? 0 : Math.max(0, this.picture.runs.length - 3) * 19;
    return { width: Math.max(120, lane.plot.clientWidth), height: (narrow ? 92 : 98) + tall + axis + rows };
  }

  private isLast(lane: Lane): boolean {
    return lane === this.lanes[this.lanes.length - 1];
  }

  // The readings beside a channel.

  private label(lane: Lane): void {
    lane.cells = [];
    const many = this.picture.runs.length > 2;
    lane.readings.replaceChildren(
      h("h3", {}, lane.channel.title, " ", h("small", {}, lane.channel.unit)),
      h("table", {}, h("tbody", {}, ...(many ? this.byRun(lane) : this.byTrace(lane)))),
    );
  }

  /** One row per trace, one column per run: one or two runs have room for that. */
  private byTrace(lane: Lane): HTMLElement[] {
    const several = this.picture.runs.length > 1;
    return lane.channel.traces.map((trace) => {
      const name = h("th", { scope: "row" }, trace.label, " ");
      const runs = isShared(trace) ? [0] : this.picture.runs.map((_, run) => run);
      const kind = h("small.kind");
      name.append(kind);
      const cells = runs.map((run) => this.cell(lane, trace, run, kind, isShared(trace) && several ? { colspan: 2 } : {}));
      return h("tr", {}, name, ...cells);
    });
  }

  /** One row per run, its letter first; what all runs share stands above them. */
  private byRun(lane: Lane): HTMLElement[] {
    const own = lane.channel.traces.filter((trace) => !isShared(trace));
    const kinds = own.map(() => h("small.kind"));
    const heads = own.map((trace, i) => h("th.head", { scope: "col" }, trace.label, " ", kinds[i] ?? null));
    const rows = this.picture.runs.map((_, run) =>
      h(
        "tr",
        marked(run),
        h("th", { scope: "row" }, h("span.letter", {}, letterOf(run))),
        ...own.map((trace, i) => this.cell(lane, trace, run, kinds[i] ?? h("small"))),
      ),
    );
    return [h("tr", {}, h("td"), ...heads), ...rows];
  }

  private cell(lane: Lane, trace: Trace, run: number, kind: HTMLElement, rest: Record<string, number> = {}): HTMLElement {
    const value = h("td.value", { ...(isShared(trace) ? {} : marked(run)), "data-stroke": trace.stroke, ...rest });
    lane.cells.push({ run, trace, value, kind });
    return value;
  }

  private read(): void {
    const grid = sharedTime(this.picture.runs);
    const words: string[] = [];
    for (const lane of this.lanes) {
      for (const { run, trace, value, kind } of lane.cells) {
        const drawn = this.picture.runs[run];
        const number = this.at === null ? whole(trace, drawn) : (drawn?.series[trace.column][this.at] ?? null);
        value.textContent = trace.format(number);
        kind.textContent = this.at === null ? trace.summary : "now";
        const letter = isShared(trace) || this.picture.runs.length < 2 ? "" : ` ${letterOf(run)}`;
        if (number !== null) words.push(`${trace.label}${letter} ${value.textContent}`);
      }
    }
    const time = this.at === null ? null : (grid[this.at] ?? null);
    this.clock.textContent = time === null ? "whole run; drag to zoom" : `t = ${seconds(time)}`;
    this.playhead.setAttribute("aria-valuetext", time === null ? "whole run" : `${seconds(time)}: ${words.join(", ")}`);
    if (this.at !== null) this.playhead.value = String(this.at);
  }

  /** Read the moment at a place of the grid, on all channels; `null` is the whole run. */
  point(place: number | null): void {
    this.at = place;
    if (place === null) return this.read();
    const time = sharedTime(this.picture.runs)[place] ?? 0;
    this.following = true;
    for (const lane of this.lanes) {
      if (lane.chart) lane.chart.setCursor({ left: lane.chart.valToPos(time, "x"), top: 8 }, false);
    }
    this.following = false;
    this.read();
  }

  private pointed(chart: uPlot): void {
    if (this.following) return;
    const left = chart.cursor.left ?? -1;
    const grid = sharedTime(this.picture.runs);
    const place = left < 0 ? null : nearest(grid, chart.posToVal(left, "x"));
    if (place === this.at) return;
    this.at = place === -1 ? null : place;
    this.read();
  }

  private zoom(to: [number, number] | null): void {
    this.zoomed = to;
    const [min, max] = to ?? [0, this.picture.duration];
    for (const lane of this.lanes) lane.chart?.setScale("x", { min, max });
    this.element.classList.toggle("zoomed", to !== null);
  }

  // Options of uPlot.

  private data(channel: Channel): uPlot.AlignedData {
    const grid = sharedTime(this.picture.runs);
    const columns = this.drawn(channel).map(({ run, trace }) =>
      onGrid(this.picture.runs[run]?.series[trace.column] ?? [], grid.length, channel.log),
    );
    return [grid, ...columns] as uPlot.AlignedData;
  }

  private drawn(channel: Channel): { run: number; trace: Trace }[] {
    return channel.traces.flatMap((trace) =>
      isShared(trace) ? [{ run: 0, trace }] : this.picture.runs.map((_, run) => ({ run, trace })),
    );
  }

  private options(lane: Lane): uPlot.Options {
    const { channel } = lane;
    const last = this.isLast(lane);
    return {
      ...this.size(lane),
      padding: [9, 26, last ? 0 : 5, 0],
      legend: { show: false },
      scales: {
        x: { time: false, range: () => this.zoomed ?? [0, this.picture.duration] },
        y: channel.log ? { distr: 3, range: decades } : { range: (_, __, max) => [0, top(max, channel.atLeast)] },
        share: { range: [0, 1] },
      },
      axes: [this.axis({ size: last ? 26 : 0, show: true, values: last ? spans : () => [] }), this.valueAxis(channel)],
      series: [{}, ...this.drawn(channel).map(({ run, trace }) => this.line(run, trace))],
      cursor: {
        sync: { key: "stormproof", setSeries: false },
        points: { size: 5 },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => (this.zoom(null), null) },
      },
      hooks: {
        drawClear: [(chart) => this.shade(chart, lane)],
        setCursor: [(chart) => this.pointed(chart)],
        setSelect: [(chart) => this.selected(chart)],
      },
    };
  }

  private selected(chart: uPlot): void {
    if (chart.select.width < 6) return;
    const from = chart.posToVal(chart.select.left, "x");
    const to = chart.posToVal(chart.select.left + chart.select.width, "x");
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoom([Math.max(0, from), Math.min(this.picture.duration, to)]);
  }

  private axis(rest: uPlot.Axis): uPlot.Axis {
    return {
      stroke: colour("muted"),
      font: "11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { show: false },
      gap: 5,
      ...rest,
    };
  }

  private valueAxis(channel: Channel): uPlot.Axis {
    if (!channel.log) return this.axis({ scale: "y", size: AXIS, space: 28, values: (_, ticks) => ticks.map(brief) });
    return this.axis({
      scale: "y",
      size: AXIS,
      space: 18,
      splits: (_, __, min, max) => powers(min, max),
      values: (_, ticks) => ticks.map((tick) => seconds(tick).replace(" ", "")),
    });
  }

  private line(run: number, trace: Trace): uPlot.Series {
    const own = colour(`run-${toneOf(run)}`);
    const pattern = DASHES[run % DASHES.length];
    const dash = pattern ? { dash: pattern } : {};
    const points = { show: false };
    switch (trace.stroke) {
      case "capacity":
        return { scale: "y", stroke: colour("muted"), width: 1, dash: [2, 3], points };
      case "offered":
        return { scale: "y", stroke: colour("offered"), width: 1, points };
      case "faint":
        return { scale: "y", stroke: own, width: 1, alpha: 0.65, ...dash, points };
      case "area":
        return { scale: "share", stroke: own, fill: own, width: 1, alpha: 0.22, ...dash, points };
      case "run":
        return { scale: "y", stroke: own, width: 1.75, ...dash, points };
    }
  }

  /** The outage as a hatched band. It goes over the channel's full height, so that all bands are one. */
  private shade(chart: uPlot, lane: Lane): void {
    const { ctx, bbox } = chart;
    const ratio = devicePixelRatio || 1;
    const bottom = this.isLast(lane) ? bbox.top + bbox.height : ctx.canvas.height;
    let row = 0;
    let taken = -Infinity;
    ctx.save();
    for (const band of this.picture.bands) {
      const from = Math.max(bbox.left, chart.valToPos(band.at, "x", true));
      const end = Math.min(bbox.left + bbox.width, chart.valToPos(band.at + band.lasts, "x", true));
      const to = Math.max(end, from + 2 * ratio);
      if (from > bbox.left + bbox.width || end < bbox.left) continue;
      hatch(ctx, from, to, bottom, ratio, band.outage);
      const length = band.lasts > 0 ? ` ${seconds(band.lasts)}` : "";
      if (lane !== this.lanes[0]) continue;
      const left = to + 5 * ratio;
      row = left < taken ? row + 1 : 0;
      taken = caption(ctx, band.name + length, left, row, ratio);
    }
    ctx.restore();
  }
}

/** An outage is hatched rising, any other fault falling and on no ground of its own. */
function hatch(ctx: CanvasRenderingContext2D, from: number, to: number, bottom: number, ratio: number, outage: boolean): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(from, 0, to - from, bottom);
  ctx.clip();
  ctx.fillStyle = colour("outage");
  if (outage || to - from < 4 * ratio) ctx.fillRect(from, 0, to - from, bottom);
  ctx.strokeStyle = colour("outage-line");
  ctx.lineWidth = ratio;
  const step = 7 * ratio;
  ctx.beginPath();
  for (let x = from - bottom; x < to + step; x += step) {
    ctx.moveTo(x, outage ? bottom : 0);
    ctx.lineTo(x + bottom, outage ? 0 : bottom);
  }
  ctx.stroke();
  ctx.restore();
}

/** Write a band's name in a row of its own, counted from the top, and return where it ends. */
function caption(ctx: CanvasRenderingContext2D, text: string, x: number, row: number, ratio: number): number {
  ctx.fillStyle = colour("outage-text");
  ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  ctx.fillText(text, x, (4 + 13 * row) * ratio);
  return x + ctx.measureText(text).width + 6 * ratio;
}

const top = (max: number | null, atLeast: number): number => Math.max(atLeast, (max ?? 0) * 1.08);

function decades(_chart: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null || min <= 0) return [0.001, 1];
  const low = 10 ** Math.floor(Math.log10(min));
  return [low, Math.max(low * 10, 10 ** Math.ceil(Math.log10(max)))];
}

/** The powers of ten from `min` to `max`. */
function powers(min: number, max: number): number[] {
  const first = Math.ceil(Math.log10(min) - 1e-9);
  const last = Math.floor(Math.log10(max) + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => 10 ** (first + i));
}

function brief(value: number): string {
  if (Math.abs(value) >= 1e6) return `${amount(value / 1e6)}M`;
  if (Math.abs(value) >= 1e4) return `${amount(value / 1e3)}k`;
  return amount(value);
}

const spans = (_chart: uPlot, ticks: number[]): string[] => ticks.map((tick) => (tick === 0 ? "0" : seconds(tick)));
