// The web console in Debian's Chromium, against a real server: what a person does, and what strangers try.
//
// Called by the test `browser` with WIREPOOL_URL, WIREPOOL_PASSWORD, WIREPOOL_SHOTS (a directory for screenshots) and the directory of the
// npm packages in NODE_PATH. Every failure throws; no duration is checked.

import { createRequire } from "node:module";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { strict as assert } from "node:assert";

const require = createRequire(`${process.env.NODE_PATH}/`);
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const URL = process.env.WIREPOOL_URL;
const PASSWORD = process.env.WIREPOOL_PASSWORD;
const SHOTS = process.env.WIREPOOL_SHOTS;
const VIEWS = ["overview", "pools", "datasets", "snapshots", "exports", "sessions", "why", "history", "doctor", "reports", "log"];

const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args });
const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1100, height: 800 }, colorScheme: "light", reducedMotion: "reduce" });
const page = await context.newPage();

const faults = [];
let expected = () => false;
const watch = (p) => {
  p.on("pageerror", (e) => faults.push(`error: ${e.message}`));
  p.on("dialog", (d) => { faults.push(`a script of a name ran: ${d.message()}`); d.dismiss(); });
  p.on("console", (m) => { if (m.type() === "error" && !expected(m.text())) faults.push(`console: ${m.text()}`); });
};
watch(page);

const quiet = () => assert.deepEqual(faults, []);
const ready = () => page.waitForFunction(() => document.querySelector("#main") && !document.querySelector("#main[aria-busy]"));
// A dialog is open until its request was answered; a poll may show the result before that. An open dialog takes all keys.
async function go(view) {
  await dialog().waitFor({ state: "detached" });
  await page.evaluate((v) => { location.hash = `#/${v}`; }, view);
  await page.waitForFunction((v) => document.querySelector(`nav.views a[aria-current]`)?.hash === `#/${v}` || v.includes("/"), view);
  await ready();
}

// No violation of WCAG 2.2 AA that axe finds.
async function accessible(what) {
  await page.evaluate(AXE);
  const result = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const told = result.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html).join(" | ")}`);
  assert.deepEqual(told, [], what);
}

async function step(name, work) {
  try {
    await work();
    quiet();
    console.log(`ok: ${name}`);
  } catch (e) {
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/failed.png` }).catch(() => {});
    console.log(`FAILED: ${name}`);
    throw e;
  }
}

const button = (name) => page.getByRole("button", { name, exact: true });
const dialog = () => page.getByRole("dialog");
const shot = (name, options = {}) => page.screenshot({ path: `${SHOTS}/${name}.png`, ...options });

async function logIn() {
  await page.getByLabel("User", { exact: true }).fill("ann");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await button("Log in").click();
  await page.waitForSelector("#health");
  await ready();
}

await step("a stranger sees the login", async () => {
  expected = (text) => text.includes("401");
  await page.goto(URL);
  await page.waitForSelector("form");
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`first paint after ${paint?.toFixed(0)} ms`);
  await accessible("login");
  await page.getByLabel("User", { exact: true }).fill("ann");
  await page.getByLabel("Password", { exact: true }).fill("a wrong guess");
  await page.keyboard.press("Enter");
  await page.getByText("user or password is wrong").waitFor();
  await logIn();
  const cookies = await context.cookies();
  assert.equal(cookies.length, 1);
  assert.deepEqual([cookies[0].httpOnly, cookies[0].secure, cookies[0].sameSite], [true, true, "Strict"]);
  assert.equal(await page.evaluate(() => document.cookie), "");
  expected = () => false;
});

await step("health is a sentence, and pools have capacity, wear and jobs", async () => {
  // The sessions may begin after the login.
  await page.locator("#health", { hasText: /^All is well: 2 pools online, 3 exports, 2 sessions\.$/ }).waitFor();
  const card = page.locator("article.card", { hasText: "tank" });
  for (const word of ["Wear", "Jobs", "used"]) await card.getByText(word).first().waitFor();
  await page.waitForFunction(() => document.querySelectorAll("polyline").length > 5);
});

await step("every view is accessible, light and dark, wide and narrow", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const view of [...VIEWS, "pool/tank", "dataset/tank%2Fvm1"]) {
      await go(view);
      await accessible(`${view}, ${colorScheme}`);
    }
  }
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.setViewportSize({ width: 360, height: 740 });
  for (const view of VIEWS) {
    await go(view);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(wide, 0, `${view} is wider than a phone`);
  }
  await accessible("phone");
  await page.setViewportSize({ width: 1100, height: 800 });
});

// Elements whose contents are wider than they are, at a window of 1280 pixels.
const clipped = () => page.evaluate(() => {
  const shown = (e) => e.clientWidth > 1 && getComputedStyle(e).display !== "inline";
  const all = [document.documentElement, ...document.querySelectorAll("#app *")].filter((e) => shown(e) && e.scrollWidth > e.clientWidth + 1 && !(e instanceof SVGElement));
  return all.map((e) => `${e.tagName.toLowerCase()}.${e.className} "${e.textContent.slice(0, 40)}": ${e.scrollWidth} in ${e.clientWidth}`);
});

await step("nothing is clipped at 1280 pixels", async () => {
  await page.setViewportSize({ width: 1280, height: 800 });
  const session = await page.evaluate(() => fetch("/v1/sessions").then((r) => r.json()).then((all) => all[0].id));
  for (const view of [...VIEWS, "pool/tank", "dataset/tank%2Fvm1", `session/${session}`]) {
    await go(view);
    assert.deepEqual(await clipped(), [], view);
  }
  await page.setViewportSize({ width: 1100, height: 800 });
});

await step("names of hosts and subsystems stay text", async () => {
  for (const view of ["sessions", "exports", "why"]) {
    await go(view);
    await page.getByText("<img/src=x/onerror=alert(1)>").first().waitFor();
    assert.equal(await page.locator("#app img").count(), 0);
  }
  await go("sessions");
  await page.locator("tbody a", { hasText: "<img" }).click();
  await page.getByText("The truth about its transport").waitFor();
  await page.getByText("not encrypted").waitFor();
  await accessible("session");
});

await step("ten thousand sessions with hostile names are one page of rows", async () => {
  const real = await page.evaluate(() => fetch("/v1/sessions").then((r) => r.json()));
  // The server's part of the list, with as many sessions as no test can make.
  const many = Array.from({ length: 10000 }, (_, id) => ({ ...real[0], id, client: `nqn.2026-01.org.example:${id}\u001b[31m\u202e<script>alert(${id})</script>` }));
  await page.route("**/v1/rows", (route) => {
    const { list, first = 0, count = 50, words = "" } = route.request().postDataJSON();
    if (list !== "sessions") return route.fallback();
    const found = many.filter((s) => s.client.includes(words));
    return route.fulfill({ json: { total: many.length, matching: found.length, rows: found.slice(first, first + count) } });
  });
  await go("overview");
  await go("sessions");
  await page.getByText("page 1 of 400").waitFor();
  assert.equal(await page.locator("tbody tr").count(), 25);
  await page.getByText("9\\u{1b}[31m\\u{202e}<script>alert(9)</script>").first().waitFor();
  await button("Last").click();
  await page.getByText("page 400 of 400").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("example:7777");
  await page.getByText("1 of 10000").waitFor();
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.getByLabel("Filter: Sessions").fill("");
  await page.unroute("**/v1/rows");
  await go("overview");
});

await step("a volume is made, exported, and destroyed by keyboard; destruction asks for its name", async () => {
  // A size that is none is refused by the server.
  expected = (text) => text.includes("400");
  await go("datasets");
  await button("Create a volume").focus();
  await page.keyboard.press("Enter");
  await dialog().getByLabel("Name below the pool").fill("made");
  await dialog().getByLabel("Size for clients").fill("many");
  await accessible("dialog");
  await page.keyboard.press("Enter");
  await dialog().getByRole("alert").filter({ hasText: "size" }).waitFor();
  // The form that the field's own help has.
  await dialog().getByText("Such as 100G or 1.5T.").waitFor();
  await dialog().getByLabel("Size for clients").fill("1.5G");
  await page.keyboard.press("Enter");
  await page.getByText("volume tank/made is there").waitFor();
  await page.locator("tr", { hasText: "tank/made" }).getByText("1.50 GiB").waitFor();
  await button("Snapshot of tank/made").click();
  await dialog().getByLabel("Name of the snapshot").fill("monday");
  await page.keyboard.press("Enter");
  await page.getByText("snapshot tank/made@monday is there").waitFor();
  await button("Destroy tank/made").click();
  const destroy = dialog().getByRole("button", { name: "Destroy", exact: true });
  await dialog().getByText("1 snapshot: tank/made@monday").waitFor();
  assert.equal(await destroy.isDisabled(), true);
  await accessible("destruction");
  await dialog().getByLabel("to confirm").fill("tank/mad");
  assert.equal(await destroy.isDisabled(), true);
  await page.keyboard.press("Escape");
  await dialog().waitFor({ state: "detached" });
  await page.locator("tr", { hasText: "tank/made" }).waitFor();
  await button("Destroy tank/made").click();
  await dialog().getByLabel("to confirm").fill("tank/made");
  await destroy.click();
  await page.getByText("tank/made is destroyed").waitFor();
  await page.locator("tr", { hasText: "tank/made" }).waitFor({ state: "detached" });
  expected = () => false;
});

await step("a pool is made; a disk that holds something is overwritten after the typed consent only; the pool is exported and imported", async () => {
  // Refusals, and questions about a pool that has just gone.
  expected = (text) => text.includes("409") || text.includes("404");
  await go("pools");
  const disks = process.env.WIREPOOL_DISKS.replace(/\/$/, "");
  const disk = `${disks}/new.img`;
  const fill = async (name, paths) => {
    await button("Create a pool").click();
    await dialog().getByLabel("Name", { exact: true }).fill(name);
    await dialog().getByLabel("Layout").selectOption("disk");
    await dialog().getByLabel("Paths of its disks").fill(paths);
    await dialog().getByLabel("Create missing files").fill("0.125G");
    await dialog().getByRole("button", { name: "Create", exact: true }).click();
  };
  await fill("duo", disk);
  await page.getByText("pool duo is there").waitFor();
  // A file that holds something: the refusal names it.
  await fill("third", `${disks}/foreign.img`);
  await dialog().getByText(/foreign\.img is a file with unknown contents/).waitFor();
  await dialog().getByText(`everything on ${disks}/foreign.img`).waitFor();
  await accessible("consent");
  if (SHOTS) await shot("consent");
  const nevertheless = dialog().getByRole("button", { name: "Do it nevertheless" });
  assert.equal(await nevertheless.isDisabled(), true);
  await dialog().getByLabel("to confirm").fill("thir");
  assert.equal(await nevertheless.isDisabled(), true);
  assert.equal(await page.evaluate(() => fetch("/v1/pools").then((r) => r.json()).then((all) => all.some((p) => p.name === "third"))), false);
  await dialog().getByLabel("to confirm").fill("third");
  await nevertheless.click();
  await page.getByText("pool third is there").waitFor();
  await go("pool/duo");
  await button("Export pool").click();
  await dialog().getByLabel("to confirm").fill("duo");
  await dialog().getByRole("button", { name: "Export", exact: true }).click();
  await page.getByText("Export pool duo: done").waitFor();
  await go("pools");
  await page.locator("tr", { hasText: "duo" }).waitFor({ state: "detached" });
  await button("Import a pool").click();
  await dialog().getByLabel("Disks, or directories").fill(disk);
  await dialog().getByRole("button", { name: "Look for pools" }).click();
  await dialog().getByText("1 disk present, 0 missing").waitFor();
  await dialog().getByRole("button", { name: "Import", exact: true }).click();
  await page.getByText("pool duo is imported").waitFor();
  await page.locator("tr", { hasText: "duo" }).waitFor();
  for (const name of ["duo", "third"]) {
    await go(`pool/${name}`);
    await button("Destroy pool").click();
    await dialog().getByLabel("to confirm").fill(name);
    await dialog().getByRole("button", { name: "Destroy", exact: true }).click();
    await page.getByText(`pool ${name} is destroyed`).waitFor();
    await go("pools");
  }
  expected = () => false;
});

await step("CHAP is set, and its secret is never shown", async () => {
  expected = (text) => text.includes("400");
  await go("datasets");
  await button("Create a volume").click();
  await dialog().getByLabel("Name below the pool").fill("iscsi");
  await dialog().getByLabel("Size for clients").fill("8M");
  await page.keyboard.press("Enter");
  await page.getByText("volume tank/iscsi is there").waitFor();
  await button("iSCSI export tank/iscsi").click();
  await dialog().getByLabel("Initiators that may log in").fill("any");
  await dialog().getByLabel("Target").fill("iqn.2026-01.org.example:chap");
  await page.keyboard.press("Enter");
  await page.getByText("tank/iscsi is exported as").waitFor();
  await go("exports");
  await button("CHAP of iqn.2026-01.org.example:chap").click();
  await dialog().getByLabel("Name of the initiators").fill("them");
  const secret = dialog().getByLabel("Their secret");
  assert.equal(await secret.getAttribute("type"), "password");
  await secret.fill("short");
  await page.keyboard.press("Enter");
  await dialog().getByRole("alert").filter({ hasText: "12" }).waitFor();
  await secret.fill("a secret of initiators");
  await page.keyboard.press("Enter");
  await page.getByText("need the secret").waitFor();
  const row = page.locator("tr", { hasText: "iqn.2026-01.org.example:chap" });
  await row.getByText("CHAP them").waitFor();
  const told = await page.evaluate(() => Promise.all(["/v1/targets", "/v1/status"].map((path) => fetch(path).then((r) => r.text()))));
  assert.ok(told.every((text) => !text.includes("a secret of initiators")));
  await button("Remove CHAP of iqn.2026-01.org.example:chap").click();
  await dialog().getByLabel("to confirm").fill("iqn.2026-01.org.example:chap");
  await dialog().getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByText("need no secret").waitFor();
  await button("Remove iqn.2026-01.org.example:chap").click();
  await dialog().getByLabel("to confirm").fill("iqn.2026-01.org.example:chap");
  await dialog().getByRole("button", { name: "Remove", exact: true }).click();
  await row.waitFor({ state: "detached" });
  await go("datasets");
  await button("Destroy tank/iscsi").click();
  await dialog().getByLabel("to confirm").fill("tank/iscsi");
  await dialog().getByRole("button", { name: "Destroy", exact: true }).click();
  await page.getByText("tank/iscsi is destroyed").waitFor();
  expected = () => false;
});

await step("times are dates, and the log is a view", async () => {
  await go("dataset/tank%2Fvm1");
  const creation = page.locator("tr", { has: page.getByText("creation", { exact: true }) });
  await creation.getByText(/^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d$/).waitFor();
  await page.keyboard.press("l");
  await page.waitForFunction(() => location.hash === "#/log");
  await page.getByLabel("Filter: Lines of the log").fill("logged in to the console");
  await page.getByText(/INFO .*logged in to the console/).first().waitFor();
  await page.getByLabel("Filter: Lines of the log").fill("");
});

await step("a scrub is started, and its job is shown", async () => {
  await go("pools");
  await button("Scrub tank").click();
  await dialog().getByLabel("Most bytes per second").fill("1M");
  await page.keyboard.press("Enter");
  await page.getByText("the scrub of tank runs").waitFor();
  await go("pool/tank");
  await page.locator("dd", { hasText: /running|finished/ }).first().waitFor();
});

await step("device classes have capacity, spilled bytes and what cache devices find; a cache device is removed and added", async () => {
  await go("pool/classes");
  const cell = (table, row, name) => page.locator(`[aria-label="${table}"] tr`, { hasText: row }).locator(`[data-name="${name}"]`);
  const classes = "Device classes of classes";
  await cell(classes, "special", "Devices").getByText("disk-1").waitFor();
  await cell(classes, "log", "Devices").getByText("disk-2").waitFor();
  await cell(classes, "cache", "Used").getByText(/of \d/).waitFor();
  assert.equal(await cell(classes, "special", "Spilled").innerText(), "0 B");
  assert.equal(await cell(classes, "data", "Spilled").innerText(), "–");
  await page.locator('[aria-label="Members of classes"] tr', { hasText: "s.img" }).getByText("disk-1, special").waitFor();
  const caches = "Cache devices of classes";
  await cell(caches, "k.img", "State").getByText("online").waitFor();
  await cell(caches, "k.img", "Written in 24 h").getByText(/^0 B of \d/).waitFor();
  await accessible("pool with classes");
  // A class that had no room, and a cache device that finds blocks: no test fills them in a moment.
  await page.route("**/v1/summary", async (route) => {
    const response = await route.fetch();
    const all = await response.json();
    const pool = all.pools.find((p) => p.name === "classes");
    Object.assign(pool.special, { takes_small_records: false, spilled: [{ dataset: "classes/home<img src=x>", bytes: 3 << 20 }], spilled_of_pool: 4096 });
    Object.assign(pool.caches[0], { hits: 60, misses: 40, hits_of_twice: 15, written_today: pool.caches[0].daily / 4, wrong: 2 });
    return route.fulfill({ json: all });
  });
  await cell(classes, "special", "Spilled").getByText("3.00 MiB").waitFor();
  await cell(classes, "special", "Note").getByText("no room for small records").waitFor();
  await cell("Spilled bytes by dataset", "classes/home<img src=x>", "Bytes").getByText("3.00 MiB").waitFor();
  await cell("Spilled bytes by dataset", "classes itself", "Bytes").getByText("4.00 KiB").waitFor();
  await cell(caches, "k.img", "Found").getByText("60 %").waitFor();
  await cell(caches, "k.img", "With twice its size").getByText("75 %").waitFor();
  await cell(caches, "k.img", "Wrong").getByText("2").waitFor();
  await accessible("pool whose class is full");
  await page.setViewportSize({ width: 1280, height: 800 });
  assert.deepEqual(await clipped(), [], "pool with classes");
  await page.setViewportSize({ width: 1100, height: 800 });
  await page.unroute("**/v1/summary");
  const disk = `${process.env.WIREPOOL_DISKS.replace(/\/$/, "")}/k.img`;
  await button(`Remove ${disk}`).click();
  await dialog().getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByText("Cache devices", { exact: true }).waitFor({ state: "detached" });
  await button("Add cache").click();
  await dialog().getByLabel("Paths of its disks").fill(disk);
  await dialog().getByRole("button", { name: "Add", exact: true }).click();
  await cell(caches, "k.img", "State").getByText("online").waitFor();
});

await step("keys choose views and show themselves", async () => {
  await go("overview");
  await page.keyboard.press("6");
  await page.waitForFunction(() => location.hash === "#/sessions");
  await page.keyboard.press("?");
  await dialog().getByText("filter the table").waitFor();
  await page.keyboard.press("Escape");
  await dialog().waitFor({ state: "detached" });
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
});

await step("a cut connection is said, and mended", async () => {
  await go("overview");
  expected = (text) => text.includes("ERR_");
  await context.setOffline(true);
  await page.getByText("The server cannot be reached.").waitFor();
  await context.setOffline(false);
  await page.getByText("The server cannot be reached.").waitFor({ state: "detached" });
  await ready();
  expected = () => false;
});

await step("a page of another server can neither frame the console nor send as its user", async () => {
  const form = `<form id=f method=post enctype=text/plain action="${URL}v1/volumes/destroy"><input name='{"name":"tank/vm1","force":true,"x":"' value='"}'></form>`;
  const evil = createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<title>evil</title><iframe name=framed src="${URL}"></iframe>${form}`);
  });
  await new Promise((done) => evil.listen(0, "127.0.0.1", done));
  const other = await context.newPage();
  // The frame of a refused page is replaced by the browser at some time: only the end of its request is certain.
  const refused = other.waitForEvent("requestfailed", (request) => request.url() === URL);
  await other.goto(`http://127.0.0.1:${evil.address().port}/`);
  assert.match((await refused).failure().errorText, /BLOCKED_BY_RESPONSE/);
  assert.equal(await other.frameLocator("iframe").locator("#app").count(), 0);
  const read = await other.evaluate((url) => fetch(`${url}v1/status`, { credentials: "include" }).then(() => "read", () => "refused"), URL);
  assert.equal(read, "refused");
  const blind = { method: "POST", mode: "no-cors", credentials: "include", body: JSON.stringify({ name: "tank/vm1", force: true }) };
  await other.evaluate(([url, options]) => fetch(`${url}v1/volumes/destroy`, options).catch(() => {}), [URL, blind]);
  await other.evaluate(() => document.getElementById("f").submit());
  await other.waitForURL(/volumes\/destroy/);
  assert.match(await other.locator("body").innerText(), /another server|origin|script/);
  await other.close();
  evil.close();
  const volumes = await page.evaluate(() => fetch("/v1/volumes").then((r) => r.json()));
  assert.ok(volumes.some((v) => v.name === "tank/vm1"));
});

await step("a stored report is shown, and its script does not run", async () => {
  await go("reports");
  const [report] = await Promise.all([context.waitForEvent("page"), page.getByRole("link", { name: "Drill: <b>cable</b>" }).click()]);
  const ran = [];
  report.on("dialog", (d) => { ran.push(d.message()); d.dismiss(); });
  await report.waitForLoadState();
  assert.equal(await report.locator("#verdict").innerText(), "passed");
  assert.deepEqual(ran, []);
  await report.close();
});

await step("screenshots", async () => {
  if (!SHOTS) return;
  await page.waitForFunction(() => !document.getElementById("note").textContent);
  await go("overview");
  await page.waitForFunction(() => document.querySelectorAll("polyline").length > 5);
  await shot("overview");
  await go("log");
  await shot("log");
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await go("why");
  await page.locator(".bar").first().waitFor();
  await shot("why");
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.setViewportSize({ width: 390, height: 780 });
  await go("datasets");
  await shot("phone");
  await page.setViewportSize({ width: 1100, height: 800 });
});

await step("a reader looks at everything, and can press nothing that changes something", async () => {
  await button("Log out").click();
  await page.getByLabel("User", { exact: true }).fill("eve");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  expected = (text) => text.includes("401") || text.includes("403");
  await button("Log in").click();
  await page.getByText("eve, who may only look").waitFor();
  for (const view of VIEWS) {
    await go(view);
    await accessible(`${view}, reader`);
  }
  await go("datasets");
  assert.equal(await button("Create a volume").isDisabled(), true);
  assert.equal(await button("Destroy tank/vm1").isDisabled(), true);
  const own = { method: "POST", headers: { "x-wirepool": "person" }, body: JSON.stringify({ name: "tank/vm1", force: true }) };
  assert.equal(await page.evaluate((options) => fetch("/v1/volumes/destroy", options).then((r) => r.status), own), 403);
  expected = () => false;
});

await step("logged out, the browser is a stranger again", async () => {
  expected = (text) => text.includes("401");
  await button("Log out").click();
  await page.waitForSelector("form");
  assert.equal((await context.cookies()).length, 0);
  const status = await page.evaluate(() => fetch("/v1/status").then((r) => r.status));
  assert.equal(status, 401);
});

await browser.close();
