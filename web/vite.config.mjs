import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const OUT = fileURLToPath(new URL("../src/stormproof/lab/_page", import.meta.url));

/** The source of a Content-Security-Policy that allows exactly this inline text. */
const hash = (text) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;

/**
 * Puts the script and the style sheet into the HTML file, and states in it which two inline texts
 * may take effect. What the build was made from is noted too, so that it is known when to build anew.
 */
function oneFile() {
  return {
    name: "stormproof-one-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      const files = Object.values(bundle);
      const page = files.find((file) => file.fileName === "index.html");
      const script = files
        .filter((file) => file.type === "chunk")
        .map((file) => file.code)
        .join("\n")
        .replaceAll("</script", "<\\/script")
        .trim();
      const style = files
        .filter((file) => file.fileName.endsWith(".css"))
        .map((file) => file.source)
        .join("\n")
        .trim();
      const policy = [
        "default-src 'none'",
        `script-src ${hash(script)}`,
        `style-src ${hash(style)}`,
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
      ].join("; ");
      const licence = readFileSync(new URL("node_modules/uplot/LICENSE", import.meta.url), "utf8");
      const sources = process.env.STORMPROOF_PAGE_SOURCES ?? "unknown";
      const head =
        `<meta http-equiv="Content-Security-Policy" content="${policy}">\n` +
        `    <meta name="stormproof-sources" content="${sources}">\n` +
        `    <style>${style}</style>`;
      page.source = String(page.source)
        .replace(/<script[^>]*\ssrc=[^>]*><\/script>\s*/g, "")
        .replace(/<link[^>]*rel="(?:stylesheet|modulepreload)"[^>]*>\s*/g, "")
        .replace("<!-- head -->", () => head)
        .replace("<!-- licences -->", () => `<!-- The charts are drawn by uPlot.\n\n${licence.trim()}\n-->`)
        .replace("<!-- script -->", () => `<script type="module">${script}</script>`);
      for (const file of files) {
        if (file !== page) delete bundle[file.fileName];
      }
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [oneFile()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
});
