/** A run as a link: everything that it takes to make it again, in the part of the address that no server sees. */

import type { RunRequest } from "./api.ts";

/** The request as text for an address. */
export function packed(request: RunRequest): string {
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The request that `text` holds; `null` if it holds none. The server checks what is in it. */
export function unpacked(text: string): RunRequest | null {
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0));
    const data: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return isRequest(data) ? data : null;
  } catch {
    return null;
  }
}

function isRequest(data: unknown): data is RunRequest {
  if (typeof data !== "object" || data === null) return false;
  const { scenario, values, seed, policies, file } = data as Partial<Record<keyof RunRequest, unknown>>;
  return (
    typeof scenario === "string" &&
    typeof values === "object" &&
    values !== null &&
    typeof seed === "number" &&
    (file === undefined || typeof file === "string") &&
    Array.isArray(policies) &&
    policies.length > 0 &&
    policies.every((policy: unknown) => typeof policy === "object" && policy !== null && "toml" in policy && typeof policy.toml === "string" && "name" in policy && typeof policy.name === "string")
  );
}
