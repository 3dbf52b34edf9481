/** Light or dark: the system's choice, until the reader makes one. */

import { h } from "./dom.ts";

const KEY = "stormproof-theme";
const CHOICES = ["auto", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];
const NAMES: Record<Choice, string> = { auto: "Auto", light: "Light", dark: "Dark" };

const listeners = new Set<() => void>();

/** Called whenever the colours change. */
export function onThemeChange(listener: () => void): void {
  listeners.add(listener);
}

const notify = (): void => listeners.forEach((listener) => listener());

function stored(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return CHOICES.find((choice) => choice === value) ?? "auto";
  } catch {
    return "auto"; // a file opened without storage
  }
}

function apply(choice: Choice): void {
  if (choice === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = choice;
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // The choice holds for this visit.
  }
  notify();
}

/** The button that goes round auto, light and dark. */
export function themeButton(): HTMLElement {
  let choice = stored();
  const button = h("button.quiet.theme", { type: "button", id: "theme" });
  const show = (): void => {
    button.textContent = `Colours: ${NAMES[choice].toLowerCase()}`;
    button.dataset["choice"] = choice;
  };
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length] ?? "auto";
    apply(choice);
    show();
  });
  apply(choice);
  show();
  for (const medium of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(medium).addEventListener("change", notify);
  }
  return button;
}

const probe = h("span", { hidden: true });

/** The present value of a colour of the style sheet, as a canvas understands it. */
export function colour(name: string): string {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}
