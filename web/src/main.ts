/** One file, two lives: with a result inside it is a saved report, without one it is the live page. */

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Api } from "./api.ts";
import { type Result, embedded } from "./data.ts";
import { h } from "./dom.ts";
import { Live, trouble } from "./live.ts";
import { Outcome } from "./outcome.ts";
import { themeButton } from "./theme.ts";

const app = document.getElementById("app") as HTMLElement;

function header(kind: string): HTMLElement {
  return h(
    "header.top",
    {},
    // A plain link to #outcome would replace the token in the address.
    h("button.skip", { type: "button", onclick: () => document.getElementById("outcome")?.focus() }, "Skip to the outcome"),
    h("h1", {}, h("span.mark", { "aria-hidden": "true" }), "Stormproof ", h("b", {}, kind)),
    h("span.grow"),
    themeButton(),
  );
}

function report(result: Result): void {
  document.title = `Stormproof report: ${result.runs.map((run) => run.name).join(" and ")}`;
  const outcome = new Outcome();
  app.append(header("report"), h("div.layout.saved", {}, outcome.element));
  outcome.show(result);
}

async function live(): Promise<void> {
  app.append(header("lab"));
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (!/^[\w-]{20,}$/.test(token)) {
    app.append(trouble("This address lacks its token. Open the whole address that `stormproof lab` has printed."));
    return;
  }
  const api = new Api(token);
  try {
    const page = new Live(api, await api.setup());
    app.append(page.element);
    await page.begin();
  } catch (error) {
    app.append(trouble(error instanceof Error ? error.message : String(error)));
  }
}

const data = embedded(document.getElementById("stormproof-data")?.textContent ?? "null");
if (data) report(data);
else void live();
