// The bytes that the console asks for while a person only looks, on a server with a thousand volumes and exports.
//
// Called by the test `browser` with WIREPOOL_URL, WIREPOOL_PASSWORD and the directory of the npm packages in NODE_PATH. Bytes are counted, no
// duration is.

import { createRequire } from "node:module";
import { strict as assert } from "node:assert";

const require = createRequire(`${process.env.NODE_PATH}/`);
const { chromium } = require("playwright-core");
const POLL_MAX = 20 * 1024;

const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args });
const page = await (await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } })).newPage();

await page.goto(process.env.WIREPOOL_URL);
await page.getByLabel("User", { exact: true }).fill("ann");
await page.getByLabel("Password", { exact: true }).fill(process.env.WIREPOOL_PASSWORD);
await page.getByRole("button", { name: "Log in" }).click();
await page.waitForSelector("#health");

// The bytes of all answers to one poll by a timer: it begins with a summary, and ends with that of the next poll.
async function poll() {
  const answers = [];
  let seen = 0;
  await new Promise((resolve) => {
    const listen = (request) => {
      const { pathname } = new URL(request.url());
      if (!pathname.startsWith("/v1/") || request.headers()["x-wirepool"] !== "timer") return;
      if (pathname === "/v1/summary") seen += 1;
      if (seen === 1) answers.push(request.response().then((r) => r.body()).then((body) => [pathname, body.length]));
      if (seen < 2) return;
      page.off("request", listen);
      resolve();
    };
    page.on("request", listen);
  });
  return Promise.all(answers);
}

for (const view of ["overview", "pools", "pool/tank", "datasets", "dataset/tank%2Fv7", "snapshots", "exports", "sessions", "history"]) {
  await page.evaluate((v) => { location.hash = `#/${v}`; }, view);
  await page.waitForFunction(() => document.querySelector("#main") && !document.querySelector("#main[aria-busy]"));
  const answers = await poll();
  const bytes = answers.reduce((sum, [, length]) => sum + length, 0);
  console.log(`${view}: ${bytes} bytes (${answers.map(([path, length]) => `${path} ${length}`).join(", ")})`);
  assert.ok(bytes > 0 && bytes <= POLL_MAX, `${view}: ${bytes} bytes`);
}

// What is not in the part that is shown is found by the server.
await page.evaluate(() => { location.hash = "#/datasets"; });
await page.getByLabel("Filter: Volumes").fill("v987");
await page.getByText("1 of 1000").waitFor();
await page.locator("tbody tr", { hasText: "tank/v987" }).waitFor();
await page.getByLabel("Filter: Volumes").fill("");
const byName = page.locator("th button", { hasText: "Volume" }).first();
await page.locator("tbody tr", { hasText: "tank/v1" }).first().waitFor();
await byName.click();
await page.locator("th[aria-sort=ascending]").waitFor();
await byName.click();
await page.locator("tbody tr", { hasText: "tank/v1000" }).first().waitFor();

await browser.close();
